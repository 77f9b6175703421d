"""Stands for `tensorrt` and `pycuda.driver` where there is no GPU: what our code calls, counted and checked.

It holds our side to the order of calls and to the buffers; whether NVIDIA's side answers so, only hardware shows.
The engine that it "runs" returns logits = the sum of all inputs, memory_out = memory_in + 1.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from onboard.drivers.engines import tensorrt_build, tensorrt_engine
from onboard.policy.contract import ACTIONS, BINS
from tests.rigs.devices.small_model import LAYERS, WIDTH

DataType = Enum("DataType", "FLOAT HALF INT32 INT64 BF16")
LayerType = Enum("LayerType", "CONVOLUTION ACTIVATION CONSTANT SHUFFLE MATRIX_MULTIPLY RECURRENCE")
TensorIOMode = Enum("TensorIOMode", "INPUT OUTPUT")
BuilderFlag = Enum("BuilderFlag", "FP16 TF32 OBEY_PRECISION_CONSTRAINTS")
Mode, Kind = TensorIOMode, DataType
MEMORY = (LAYERS, 1, WIDTH)


@dataclass
class Tensor:
    """A tensor inside a network."""

    dtype: DataType = DataType.FLOAT
    is_shape_tensor: bool = False


@dataclass
class Layer:
    """A layer of a network; remembers what it was constrained to."""

    name: str
    type: LayerType
    outputs: list[Tensor] = field(default_factory=lambda: [Tensor()])
    inputs: list[Tensor] = field(default_factory=lambda: [Tensor()])
    metadata: str = ""
    precision: Any = None
    output_types: dict[int, Any] = field(default_factory=dict)

    @property
    def num_inputs(self) -> int:
        return len(self.inputs)

    @property
    def num_outputs(self) -> int:
        return len(self.outputs)

    def get_input(self, index: int) -> Tensor:
        return self.inputs[index]

    def get_output(self, index: int) -> Tensor:
        return self.outputs[index]

    def set_output_type(self, index: int, kind: Any) -> None:
        self.output_types[index] = kind


class Machine:
    """One GPU with TensorRT: the two fake modules, and a log of what was done.

    tensors:      name -> (shape, dtype, mode) of the engine
    layers:       what the parser finds
    parse_errors: (node, what) for which it refuses the model
    """

    def __init__(self, tensors: dict[str, tuple[tuple[int, ...], DataType, TensorIOMode]]) -> None:
        self.tensors = tensors
        self.layers: list[Layer] = []
        self.parse_errors: list[tuple[int, str]] = []
        self.builds = 0
        self.parsed = b""
        self.flags: set[Any] = {BuilderFlag.TF32}
        self.plan: bytes | None = b"plan"
        self.timings: bytes | None = None
        self.log: list[str] = []
        self.device_memory: dict[int, np.ndarray] = {}
        self.addresses: dict[str, int] = {}
        self.starts = True
        self.trt = self._tensorrt()
        self.cuda = self._pycuda()

    def _tensorrt(self) -> SimpleNamespace:
        logger = type("Logger", (), {"WARNING": 1, "__init__": lambda self, level: None})
        return SimpleNamespace(
            __version__="10.3.0",
            Logger=logger,
            Builder=lambda logger: self._builder(),
            OnnxParser=lambda network, logger: self._parser(),
            Runtime=lambda logger: SimpleNamespace(deserialize_cuda_engine=self._deserialize),
            NetworkDefinitionCreationFlag=SimpleNamespace(EXPLICIT_BATCH=0),
            MemoryPoolType=SimpleNamespace(WORKSPACE=0),
            BuilderFlag=BuilderFlag,
            DataType=DataType,
            LayerType=LayerType,
            TensorIOMode=TensorIOMode,
        )

    def _builder(self) -> SimpleNamespace:
        network = SimpleNamespace(num_layers=len(self.layers), get_layer=lambda index: self.layers[index])
        config = SimpleNamespace(
            set_memory_pool_limit=lambda pool, size: None,
            set_flag=self.flags.add,
            clear_flag=self.flags.discard,
            create_timing_cache=lambda known: known,
            set_timing_cache=self._set_timings,
            get_timing_cache=lambda: SimpleNamespace(serialize=lambda: (self.timings or b"") + b"+"),
        )
        return SimpleNamespace(
            create_network=lambda flags: network,
            create_builder_config=lambda: config,
            build_serialized_network=lambda network, config: self._build(),
        )

    def _set_timings(self, known: bytes, ignore_mismatch: bool) -> bool:
        if known.strip(b"+"):
            return False
        self.timings = known
        return True

    def _build(self) -> bytes | None:
        self.builds += 1
        return self.plan

    def _parser(self) -> SimpleNamespace:
        errors = [
            SimpleNamespace(node=lambda node=node: node, desc=lambda what=what: what)
            for node, what in self.parse_errors
        ]
        return SimpleNamespace(
            parse=self._parse_with(errors), num_errors=len(errors), get_error=lambda index: errors[index]
        )

    def _parse_with(self, errors: list[Any]) -> Any:
        def parse(content: bytes) -> bool:
            self.parsed = content
            return not errors

        return parse

    def _deserialize(self, content: bytes) -> SimpleNamespace | None:
        if content != b"plan":
            return None
        names = list(self.tensors)
        return SimpleNamespace(
            num_io_tensors=len(names),
            get_tensor_name=lambda index: names[index],
            get_tensor_shape=lambda name: self.tensors[name][0],
            get_tensor_dtype=lambda name: self.tensors[name][1],
            get_tensor_mode=lambda name: self.tensors[name][2],
            create_execution_context=lambda: SimpleNamespace(
                set_tensor_address=self._set_address, execute_async_v3=self._execute
            ),
        )

    def _set_address(self, name: str, address: int) -> bool:
        self.addresses[name] = address
        return True

    def _execute(self, stream: int) -> bool:
        self.log.append("execute")
        at = {name: self.device_memory[address] for name, address in self.addresses.items()}
        total = sum(float(at[name].sum()) for name, (_, _, mode) in self.tensors.items() if mode is TensorIOMode.INPUT)
        self.device_memory[self.addresses["logits"]] = np.full(self.tensors["logits"][0], total, np.float32)
        self.device_memory[self.addresses["memory_out"]] = at["memory_in"] + 1.0
        return self.starts

    def _pycuda(self) -> SimpleNamespace:
        context = SimpleNamespace(
            push=lambda: self.log.append("push"),
            pop=lambda: self.log.append("pop"),
            detach=lambda: self.log.append("detach"),
        )
        device = SimpleNamespace(
            name=lambda: "Orin (nvgpu)", compute_capability=lambda: (8, 7), retain_primary_context=lambda: context
        )
        return SimpleNamespace(
            Error=type("Error", (Exception,), {}),
            init=lambda: None,
            Device=lambda index: device,
            Stream=lambda: SimpleNamespace(handle=11, synchronize=lambda: self.log.append("synchronize")),
            pagelocked_empty=np.empty,
            mem_alloc=self._allocate,
            memcpy_htod_async=self._copy_in,
            memcpy_dtoh_async=self._copy_out,
        )

    def _allocate(self, size: int) -> Allocation:
        allocation = Allocation(self, 4096 * (len(self.device_memory) + 1))
        self.device_memory[allocation.address] = np.empty(0)
        return allocation

    def _copy_in(self, device: Allocation, host: np.ndarray, stream: Any) -> None:
        self.log.append("in")
        self.device_memory[device.address] = host.copy()

    def _copy_out(self, host: np.ndarray, device: Allocation, stream: Any) -> None:
        self.log.append("out")
        host[...] = self.device_memory[device.address]


class Allocation:
    """Memory on the fake device."""

    def __init__(self, machine: Machine, address: int) -> None:
        self.machine, self.address = machine, address

    def __int__(self) -> int:
        return self.address

    def free(self) -> None:
        self.machine.log.append("free")


TENSORS = {
    "scan": ((1, 1, BINS), Kind.FLOAT, Mode.INPUT),
    "memory_in": (MEMORY, Kind.FLOAT, Mode.INPUT),
    "logits": ((1, len(ACTIONS)), Kind.FLOAT, Mode.OUTPUT),
    "memory_out": (MEMORY, Kind.FLOAT, Mode.OUTPUT),
}
"""Of an engine of the small model."""


def installed(patch: pytest.MonkeyPatch) -> Machine:
    """Return a machine with a GPU and TensorRT, as far as our code can see, and an engine of the small model."""
    machine = Machine(dict(TENSORS))
    for module in (tensorrt_build, tensorrt_engine):
        patch.setattr(module, "trt", machine.trt, raising=False)
    patch.setattr(tensorrt_build, "HAS_TENSORRT", True)
    patch.setattr(tensorrt_engine, "cuda", machine.cuda, raising=False)
    patch.setattr(tensorrt_engine, "HAS_PYCUDA", True)
    return machine
