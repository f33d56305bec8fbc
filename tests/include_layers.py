"""Fails where a source file includes a header of a layer above its own.

The layers, lowest first; a file may include its own layer and those below. Only backend/cpu_device.cpp
and the CPU's own files include backend/cpu.
"""

import pathlib
import re
import sys

LAYERS = ["core", "backend", "ops", "autograd", "nn", "optim", "io", "onnx", "data", "distributed", "train"]
# Headers of a higher layer that a lower layer may include, with the reason.
ALLOWED = {
    # The gradient of the recurrent layers' backward differentiates the layer as composed ops.
    ("src/ops/recurrent.cpp", "extensor/autograd.h"),
    # libextensor_cuda.so fills the table through which collectives call NCCL.
    ("src/backend/cuda/nccl.cpp", "distributed/transport.h"),
}

INCLUDE = re.compile(r'^#include "([^"]+)"', re.M)


def layer_of(header):
    parts = header.split("/")
    if parts[0] == "extensor":
        folder = parts[1] if len(parts) > 2 else pathlib.PurePath(parts[1]).stem
        return {"generation": "nn", "models": "nn", "tables": "core"}.get(folder, folder if folder in LAYERS else None)
    return parts[0] if parts[0] in LAYERS else None


def main(root):
    found = []
    for path in sorted(root.glob("src/**/*")):
        if path.suffix not in (".h", ".cpp"):
            continue
        own = path.relative_to(root / "src").parts[0]
        name = path.relative_to(root).as_posix()
        for header in INCLUDE.findall(path.read_text()):
            layer = layer_of(header)
            if layer and LAYERS.index(layer) > LAYERS.index(own) and (name, header) not in ALLOWED:
                found.append(f"{name}: includes {header}, which is of a higher layer ({layer})")
            inside = name.startswith("src/backend/cpu/") or name == "src/backend/cpu_device.cpp"
            if header.startswith("backend/cpu/") and not inside:
                found.append(f"{name}: includes {header}; only backend/cpu_device.cpp may")
    print("\n".join(found) if found else "every include points to the same layer or below")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
