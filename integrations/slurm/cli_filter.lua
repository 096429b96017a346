-- sbatch says when the job would start, before it submits it. It submits it whatever the answer, and without jobwise too.
-- In the folder of slurm.conf, with CliFilterPlugins=lua. It runs as the user, beside sbatch, not in Slurm's controller.
-- JOBWISE_FITS of the environment holds more options of `jobwise slurm fits`, such as --folder. Nothing is asked
-- of srun and salloc. A job without a time limit is asked about with that of its partition.
local ASK = "timeout 20 jobwise slurm fits"
local KNOWN = { partition = "--partition", account = "--account", qos = "--qos", nodes = "--nodes" }

local OTHERS = { "mem", "mem-per-cpu", "gpus", "gpus-per-task", "constraint", "exclusive", "ntasks-per-node", "array",
  "dependency", "licenses", "nodelist" }
local NOTHING = { [""] = true, ["0"] = true, ["unset"] = true, ["no"] = true, ["none"] = true, ["-1"] = true, ["-2"] = true }

local function plain(text) -- what a shell takes as one word
  return text and text:match("^[%w%.:_,/-]+$")
end

local function minutes(text) -- of Slurm's forms: 30, 30:00, 1:30:00, 2-0, 2-12:00, 2-12:00:00
  local days, rest = text:match("^(%d+)%-(.+)$")
  local parts = {}
  for x in (rest or text):gmatch("%d+") do
    parts[#parts + 1] = tonumber(x)
  end
  local a, b, c = parts[1] or 0, parts[2] or 0, parts[3] or 0
  if days then
    return tonumber(days) * 1440 + a * 60 + b + c / 60
  elseif #parts == 3 then
    return a * 60 + b + c / 60
  end
  return a + b / 60
end

function slurm_cli_setup_defaults(options, early)
  return slurm.SUCCESS
end

function slurm_cli_pre_submit(options, offset)
  local limit = options["time"]
  if options["type"] ~= "sbatch" then
    return slurm.SUCCESS
  end
  local function count(name) -- 0: it was not asked for
    return math.max(tonumber(options[name]) or 1, 1)
  end
  local words = { ASK, "--procs", tostring(count("ntasks") * count("cpus-per-task")) }
  if limit and limit:match("^[%d:-]*%d[%d:-]*$") then
    words[#words + 1] = "--time " .. math.max(math.ceil(minutes(limit)), 1) .. "m"
  end
  for name, option in pairs(KNOWN) do
    local value = plain(options[name])
    if value and not (name == "nodes" and not value:match("^%d+$")) then
      words[#words + 1] = option .. " " .. value
    end
  end
  local gpus = (options["gpus-per-node"] or options["gres"] or ""):match("gpu:?%a*:?(%d+)$") or (options["gpus-per-node"] or ""):match("^%d+$")
  if gpus then
    words[#words + 1] = "--gpus-per-node " .. gpus
  end
  local without = {}
  for _, name in ipairs(OTHERS) do
    local value = options[name]
    if value and not NOTHING[value] then
      without[#without + 1] = "--" .. name
    end
  end
  words[#words + 1] = os.getenv("JOBWISE_FITS") or ""
  local answer = io.popen(table.concat(words, " ") .. " 2>/dev/null")
  if answer then
    local line = answer:read()
    answer:close()
    if line then
      io.stderr:write(line, #without > 0 and " (asked without " .. table.concat(without, ", ") .. ")" or "", "\n")
    end
  end
  return slurm.SUCCESS
end

function slurm_cli_post_submit(offset, job, step)
  return slurm.SUCCESS
end
