"""A workflow of commands, in CWL and in WDL: a text is split, the lines of its pieces are counted, the counts are summed. Every
count leaves a mark, so that a test or a benchmark sees whether one ran twice."""

from __future__ import annotations

import json
from pathlib import Path

PARTS, LINES = 12, 1000
SPLIT = """cwlVersion: v1.2
class: CommandLineTool
requirements:
  ResourceRequirement: {coresMin: 2, ramMin: 100}
baseCommand: [split, -d]
inputs:
  parts: {type: int, inputBinding: {prefix: -n, position: 1, valueFrom: "l/$(self)"}}
  text: {type: File, inputBinding: {position: 2}}
outputs:
  pieces: {type: "File[]", outputBinding: {glob: "x*"}}
"""
CWL = """cwlVersion: v1.2
class: Workflow
requirements: {ScatterFeatureRequirement: {}, StepInputExpressionRequirement: {}}
inputs:
  text: File
  marks: string
  parts: {type: int, default: 3}
outputs:
  total: {type: File, outputSource: add/sum}
steps:
  split:
    run: tools/split.cwl
    in: {text: text, parts: parts}
    out: [pieces]
  count:
    run:
      class: CommandLineTool
      requirements:
        ResourceRequirement: {ramMin: 64}
        ToolTimeLimit: {timelimit: 120}
        InitialWorkDirRequirement:
          listing: [{entryname: script.sh, entry: "echo $(inputs.piece.basename) >> $(inputs.marks); sleep 0.4; wc -l < $1\\n"}]
      hints:
        DockerRequirement: {dockerPull: debian}
      baseCommand: [sh, script.sh]
      inputs:
        piece: {type: File, inputBinding: {position: 1}}
        marks: string
      stdout: $(inputs.piece.basename).count
      outputs: {lines: stdout}
    scatter: piece
    in: {piece: split/pieces, marks: marks}
    out: [lines]
  add:
    run:
      class: CommandLineTool
      requirements: {ShellCommandRequirement: {}}
      arguments: [{shellQuote: false, valueFrom: "awk '{s += $1} END {print s}'"}]
      inputs: {files: {type: "File[]", inputBinding: {position: 1}}}
      stdout: total.txt
      outputs: {sum: stdout}
    in: {files: count/lines}
    out: [sum]
"""
WDL = """version 1.0
task split {
  input { File text  Int parts }
  command <<< split -d -n l/~{parts} ~{text} x >>>
  output { Array[File] pieces = glob("x*") }
  runtime { cpu: 2  memory: "100 MiB"  time_minutes: 2 }
}
task count {
  input { File piece  String marks }
  command <<<
    basename ~{piece} >> ~{marks}
    sleep 0.4
    wc -l < ~{piece}
  >>>
  output { Int lines = read_int(stdout()) }
  runtime { memory: "64 MiB" }
}
task add {
  input { Array[Int] lines }
  command <<< echo $((~{sep="+" lines})) > total.txt >>>
  output { File total = "total.txt" }
}
workflow words {
  input { File text  String marks  Int parts = 3 }
  call split { input: text = text, parts = parts }
  scatter (p in split.pieces) { call count { input: piece = p, marks = marks } }
  call add { input: lines = count.lines }
  output { File total = add.total }
}
"""


def written(folder: Path, kind: str, cwl: str = CWL, wdl: str = WDL) -> list[str]:
    """Write the workflow of a kind ("cwl", "wdl") with its inputs into a folder: the words that name them for `mars run`. The
    marks are lines of the file `marks`."""
    (folder / "tools").mkdir(exist_ok=True)
    (folder / "tools" / "split.cwl").write_text(SPLIT)
    (folder / "words.cwl").write_text(cwl)
    (folder / "words.wdl").write_text(wdl)
    (folder / "text.txt").write_text("".join(f"{i}\n" for i in range(LINES)))
    marks = str(folder / "marks")
    (folder / "in.yml").write_text(f"text: {{class: File, path: text.txt}}\nmarks: {marks}\nparts: {PARTS}\n")
    (folder / "in.json").write_text(json.dumps({"words.text": "text.txt", "words.marks": marks, "words.parts": PARTS}))
    return [str(folder / f"words.{kind}"), "--inputs", str(folder / {"cwl": "in.yml", "wdl": "in.json"}[kind])]


def total(result: dict) -> str:
    """The sum that a run has found, by what `mars run --json` printed."""
    outputs = next(iter(result["outputs"].values()))
    file = outputs["words.total"] if "words.total" in outputs else outputs["total"]["location"].removeprefix("file://")
    return Path(file).read_text().strip()
