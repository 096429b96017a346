"""A policy's network as an ONNX graph, for runtimes elsewhere; the encoder's metadata go with it."""

from __future__ import annotations

import json

import numpy as np

from jobwise.policies.index import KEY
from jobwise.policies.neural import NeuralPolicy


def to_onnx(policy: NeuralPolicy) -> bytes:
    """The bytes of an ONNX model: input `x`, float32 [rows, F] (per job) or [B, rows, 2] or [B, rows, F]; output `scores`."""
    from onnx import TensorProto, helper, numpy_helper

    f, nodes, given = policy.forward, [], []

    def constant(name: str, value: np.ndarray) -> str:
        given.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    at = "x"
    if f.kind == "rows":
        w = constant("filter_weight", f.weights["filter.weight"].T.astype(np.float32))
        nodes += [helper.make_node("MatMul", [at, w], ["filtered"])]
        nodes += [helper.make_node("Add", ["filtered", constant("filter_bias", f.weights["filter.bias"])], ["shifted"])]
        nodes += [helper.make_node("Squeeze", ["shifted", constant("last", np.array([2], np.int64))], ["flat"])]
        at = "flat"
    elif f.kind == "mlp":
        nodes += [helper.make_node("Flatten", [at], ["flat"], axis=1)]
        at = "flat"
    for i, (w, b) in enumerate(f.layers):
        nodes.append(helper.make_node("MatMul", [at, constant(f"weight{i}", w)], [f"product{i}"]))
        at = f"product{i}"
        if b is not None:
            nodes.append(helper.make_node("Add", [at, constant(f"bias{i}", b)], [f"sum{i}"]))
            at = f"sum{i}"
        if i < len(f.layers) - 1:
            nodes.append(helper.make_node("Relu", [at], [f"active{i}"]))
            at = f"active{i}"
    nodes.append(helper.make_node("Identity", [at], ["scores"]))
    shape = ["rows", f.sizes[0]] if f.kind == "perjob" else ["batch", None, None]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    y = helper.make_tensor_value_info(
        "scores", TensorProto.FLOAT, ["rows", 1] if f.kind == "perjob" else ["batch", f.sizes[-1]]
    )
    model = helper.make_model(helper.make_graph(nodes, "policy", [x], [y], given), opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 9
    encoder = policy.encoder if isinstance(policy.encoder, dict) else policy.encoder.metadata()
    helper.set_model_props(model, {KEY: json.dumps({"encoder": encoder, "about": policy.about})})
    return model.SerializeToString()
