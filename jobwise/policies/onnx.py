"""A policy's network as an ONNX graph, for runtimes elsewhere; the encoder's metadata go with it."""

from __future__ import annotations

import json
from typing import Any, cast

import numpy as np

from jobwise.policies.files import KEY
from jobwise.policies.networks import Forward
from jobwise.policies.neural import NeuralPolicy


def to_onnx(policy: NeuralPolicy) -> bytes:
    """The bytes of an ONNX model: input `x`, float32 [rows, F] (per job) or [B, rows, 2] or [B, rows, F]; output `scores`."""
    from onnx import TensorProto, helper, numpy_helper

    f, nodes, constants = policy.forward, [], []

    def node(kind: str, inputs: list[str], out: str, **more: Any) -> str:
        nodes.append(helper.make_node(kind, inputs, [out], **more))
        return out

    def constant(name: str, value: np.ndarray) -> str:
        constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def dense(f: Forward, at: str, level: str = "") -> str:
        """The layers of a network without levels; the name of its scores."""
        if f.kind == "rows":
            w = constant(f"filter_weight{level}", f.weights["filter.weight"].T.astype(np.float32))
            at = node("MatMul", [at, w], f"filtered{level}")
            at = node("Add", [at, constant(f"filter_bias{level}", f.weights["filter.bias"])], f"shifted{level}")
            at = node("Squeeze", [at, constant(f"last{level}", np.array([2], np.int64))], f"flat{level}")
        elif f.kind == "mlp":
            at = node("Flatten", [at], "flat", axis=1)
        for i, (w, b) in enumerate(f.layers):
            at = node("MatMul", [at, constant(f"weight{level}{i}", w)], f"product{level}{i}")
            if b is not None:
                at = node("Add", [at, constant(f"bias{level}{i}", b)], f"sum{level}{i}")
            if i < len(f.layers) - 1:
                at = node("Relu", [at], f"active{level}{i}")
        return at

    if f.kind == "levels":
        bounds = [constant(k, np.array([v], np.int64)) for k, v in (("zero", 0), ("end", -1), ("rows_axis", 1), ("far", 2**31))]
        rows = node("Slice", ["x", bounds[0], bounds[1], bounds[2]], "rows")
        tail = node("Slice", ["x", bounds[1], bounds[3], bounds[2]], "tail")  # [B, 1, 2]
        said = node("ReduceMax", [tail], "said", axes=[2], keepdims=0)  # [B, 1]: its second number is 0
        behind = node("Greater", [said, constant("half", np.array([0.5], np.float32))], "behind")
        first, second = (dense(level, rows, name) for level, name in zip(f.levels, ("_a", "_b"), strict=True))
        node("Where", [behind, second, first], "scores")
    else:
        node("Identity", [dense(f, "x")], "scores")
    shape = ["rows", f.sizes[0]] if f.kind == "perjob" else ["batch", None, None]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, cast(Any, shape))
    y = helper.make_tensor_value_info(
        "scores", TensorProto.FLOAT, ["rows", 1] if f.kind == "perjob" else ["batch", f.sizes[-1]]
    )
    graph = helper.make_graph(nodes, "policy", [x], [y], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 9
    encoder = policy.encoder if isinstance(policy.encoder, dict) else policy.encoder.metadata()
    helper.set_model_props(model, {KEY: json.dumps({"encoder": encoder, "about": policy.about})})
    return model.SerializeToString()
