-- A cap on power in Slurm: every job asks for the watts that it adds to idle nodes, as licences, so that Slurm never starts more
-- than there are. `jobwise slurm what-if --cap` prints the three numbers below, and the line Licenses=watts:N.
-- In the folder of slurm.conf, with JobSubmitPlugins=lua. Slurm's controller runs it: it asks no other program.
local CORE, GPU, NODE = 5, 250, 60 -- W that a core, a GPU and a node in use add

local function number(value)
  if value == nil or value == slurm.NO_VAL or value == slurm.NO_VAL16 or value == slurm.NO_VAL64 then
    return nil
  end
  return value
end

local function gpus_in(text) -- "gres:gpu:2", "gres/gpu:a100:2", "gpu"
  local sum = 0
  for item in (text or ""):gmatch("[^,]+") do
    if item:match("gpu") then
      sum = sum + (tonumber(item:match(":(%d+)$")) or 1)
    end
  end
  return sum
end

local function watts(job)
  local nodes = number(job.min_nodes) or 1
  local tasks = number(job.num_tasks) or nodes
  local cpus = math.max(number(job.min_cpus) or 1, tasks * (number(job.cpus_per_task) or 1))
  local gpus = math.max(gpus_in(job.tres_per_node) * nodes, gpus_in(job.tres_per_task) * tasks, gpus_in(job.tres_per_job))
  return math.ceil(CORE * cpus + GPU * gpus + NODE * nodes)
end

function slurm_job_submit(job, partitions, uid)
  local own = "watts:" .. watts(job)
  local others = {}
  for item in (job.licenses or ""):gmatch("[^,]+") do -- nobody asks for fewer
    if not item:match("^watts") then
      others[#others + 1] = item
    end
  end
  others[#others + 1] = own
  job.licenses = table.concat(others, ",")
  return slurm.SUCCESS
end

function slurm_job_modify(job, record, partitions, uid)
  return slurm.SUCCESS
end
