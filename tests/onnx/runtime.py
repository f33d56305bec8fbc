"""Compares ExTensor with onnxruntime: exported files, which onnx.checker checks, and models of one operator.

    python runtime.py onnx_test onnx_run_models

The program onnx_test writes models, inputs and the results of ExTensor into a folder, and onnx_run_models runs the
models of operators.py. Without onnx and onnxruntime the test is skipped: `pip install onnx onnxruntime` provides them,
and EXTENSOR_PYTHON names an interpreter that has them. The test python_package installs them where it can.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True  # of operators.py, in the source folder
SKIPPED = 77
# Of the largest magnitude of a result: float32 rounding, summed in another order.
ALLOWED = 2e-5


def arrays(folder, prefix):
    import numpy

    count = len(list(folder.glob(f"{prefix}[0-9]*.npy")))
    return [numpy.load(folder / f"{prefix}{k}.npy") for k in range(count)]


def compare(name, found, expected):
    import numpy

    errors = []
    for k, (x, y) in enumerate(zip(found, expected, strict=True)):
        if x.shape != y.shape or x.dtype != y.dtype:
            errors.append(f"{name}: output {k} is {x.dtype} {x.shape}, must be {y.dtype} {y.shape}")
            continue
        x, y = x.astype(numpy.float64), y.astype(numpy.float64)
        same = (x == y) | (numpy.isnan(x) & numpy.isnan(y))  # also infinities
        if same.all():
            continue
        largest = numpy.abs(y[numpy.isfinite(y)]).max(initial=1.0)
        distance = numpy.abs(x[~same] - y[~same]).max() / largest
        if not distance <= ALLOWED:
            errors.append(f"{name}: output {k} differs by {distance:.3g}")
    return errors


def run(folder):
    import onnx
    import onnxruntime

    errors = []
    path = folder / "model.onnx"
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_inputs()]
    cases = 0
    for prefix in ("", "other_"):
        inputs = arrays(folder, prefix + "input_")
        if not inputs:
            continue
        cases += 1
        found = session.run(None, dict(zip(names, inputs, strict=True)))
        errors += compare(prefix + folder.name, found, arrays(folder, prefix + "output_"))
    return cases, errors


def write_operator(folder, model, inputs):
    import numpy
    import onnx
    import onnxruntime

    folder.mkdir()
    onnx.save(model, folder / "model.onnx")
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_inputs()]
    for k, output in enumerate(session.run(None, dict(zip(names, inputs, strict=True)))):
        numpy.save(folder / f"output_{k}.npy", output)
    for k, value in enumerate(inputs):
        numpy.save(folder / f"input_{k}.npy", value)


def check_operators(program):
    """The number of models, and the lines that the program prints about differences."""
    import onnxruntime
    import operators  # beside this file

    onnxruntime.set_default_logger_severity(3)
    with tempfile.TemporaryDirectory() as name:
        folders, errors = [], []
        for operator, (model, inputs) in operators.models():
            try:
                write_operator(pathlib.Path(name) / operator, model, inputs)
                folders.append(pathlib.Path(name) / operator)
            except Exception as error:  # the runtime has types of its own
                errors.append(f"{operator}: onnxruntime: {error}")
        result = subprocess.run([program, *folders], capture_output=True, text=True)
    errors += result.stdout.splitlines()
    if result.returncode not in (0, 1):
        errors.append(f"{program} ended with {result.returncode}: {result.stderr}")
    return len(folders), errors


def has_runtime(python):
    probe = "import numpy, onnx, onnxruntime"
    return subprocess.run([python, "-c", probe], stderr=subprocess.DEVNULL).returncode == 0


def main(program, run_models, interpreter=None):
    """`interpreter` is used if this one lacks onnxruntime."""
    try:
        import numpy  # noqa: F401
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
    except ImportError as error:
        for python in (os.environ.get("EXTENSOR_PYTHON"), interpreter):
            if python and os.path.exists(python) and has_runtime(python):
                return subprocess.run([python, __file__, program, run_models]).returncode
        print(f"SKIPPED onnx_runtime: {error} (pip install onnx onnxruntime)")
        return SKIPPED
    with tempfile.TemporaryDirectory() as name:
        subprocess.run(
            [program, "--gtest_filter=Onnx.WritesExamplesForOtherRuntimes"],
            env=dict(os.environ, EXTENSOR_ONNX_FOLDER=name),
            check=True,
            stdout=subprocess.DEVNULL,
        )
        cases, errors = 0, []
        folders = sorted(pathlib.Path(name).iterdir())
        for folder in folders:
            try:
                count, found = run(folder)
            except Exception as error:  # the checker and the runtime have types of their own
                count, found = 0, [f"{folder.name}: {error}"]
            cases += count
            errors += found
    operators, found = check_operators(run_models)
    errors += found
    print("\n".join(errors))
    print(f"{len(folders)} exported models in {cases} runs, {operators} operators, {len(errors)} errors")
    return 1 if errors or not folders or not operators else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
