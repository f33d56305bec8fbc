"""The package as a whole: every public function is bound, stubs are correct, imports are fast, and
the programs of the documentation run."""

import pathlib
import re
import subprocess
import sys

import pytest

import extensor as ex

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "python"))


def test_every_public_function_is_bound():
    import generate_bindings

    generator = generate_bindings.Generator(
        generate_bindings.Database(SOURCE / "op_database/functions.inc")
    )
    missing = []
    for function in generator.database.functions:
        if generator.reason_to_omit(function):
            continue
        space = function.space.removeprefix("extensor").removeprefix("::")
        module = getattr(ex._core, "_" + space) if space else ex
        # A function with a leading underscore is called by one of _array_api.py or linalg.py.
        if not callable(getattr(module, function.name, getattr(module, "_" + function.name, None))):
            missing.append(f"{function.space}::{function.name}")
    assert not missing
    assert len(generator.database.functions) > 800


def test_members_are_the_functions():
    assert ex.Tensor.sum is ex.sum and ex.Tensor.relu_ is ex.relu_
    for name in ("matmul", "argmax", "topk", "gather", "clamp", "isnan", "bitwise_and", "exp"):
        assert hasattr(ex.Tensor, name)


def test_every_function_has_documentation_and_signatures():
    for name, value in vars(ex._core).items():
        if type(value).__name__ == "Function":
            assert value.__signatures__ and name.removeprefix("_") in value.__doc__


PROGRAM = """
import extensor as ex
from extensor import data, models, nn, optim, train

x: ex.Tensor = ex.tensor([1.0, 2.0], dtype="float32", requires_grad=True)
y: ex.Tensor = ex.softmax(x * 2 + 1, axis=-1)[0:1].sum(0, keepdims=True)
shape: tuple[int, ...] = y.shape
top = ex.topk(x, 1)
first: ex.Tensor | None = top.values
model = nn.Sequential(nn.Linear(2, 3, bias=False), nn.ReLU())
optimizer = optim.Adam(model.parameters(), lr=1e-3, betas=(0.9, 0.99))
schedule = optim.StepLR(optimizer, step_size=3)
with ex.no_grad():
    model(x)
for batch in data.DataLoader(data.TensorDataset(x), 1, workers=1):
    pass


class Net(nn.Module):
    def __init__(self) -> None:
        self.parts = [models.LeNet(classes=3), nn.Linear(2, 2)]

    def forward(self, x: ex.Tensor) -> ex.Tensor:
        return ex.relu(x)


class Steps(train.Callback):
    def step(self, step: train.StepRecord) -> None:
        loss: float = step.loss


trainer = train.Trainer(Net().to("float32"), optimizer, epochs=2, loss=ex.mse_loss, schedule=schedule)
trainer.add(Steps())
trainer.add(train.EarlyStopping(watched="accuracy"))
with ex.Autocast("bfloat16"), ex.profile(print=False) as profile:
    outcome: train.Outcome = trainer.fit(data.DataLoader(data.TensorDataset(x, x), 1))
accuracy: float = outcome.last.accuracy
scaler = optim.GradScaler(init_scale=8.0)
made: bool = scaler.step(optimizer)
images = data.ImageDataset(data.digits(3), [data.grayscale()])
tokens: ex.Tensor = data.CharacterTokenizer("ab").encode("a")
tokens = models.generate(models.Gpt(vocabulary=3), tokens, tokens=3, top_p=0.9)
"""


def run_mypy(tmp_path, program):
    file = tmp_path / "program.py"
    file.write_text(program)
    return subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), str(file)],
        capture_output=True, text=True, cwd=tmp_path,
    )  # fmt: skip


def test_stubs(tmp_path):
    pytest.importorskip("mypy")
    result = run_mypy(tmp_path, PROGRAM)
    assert result.returncode == 0, result.stdout
    result = run_mypy(tmp_path, "import extensor as ex\nex.softmax(ex.ones(2), axis='a')\nex.nothing()\n")
    assert result.stdout.count("error:") == 2, result.stdout


def test_package_is_typed(tmp_path):
    pytest.importorskip("mypy")
    result = subprocess.run(
        [sys.executable, "-m", "mypy", "--cache-dir", str(tmp_path), "-p", "extensor"],
        capture_output=True, text=True, cwd=tmp_path,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout


IMPORT = """
def resident():
    return int(next(l for l in open("/proc/self/status") if l.startswith("VmRSS")).split()[1]) / 1024
before = resident()
import extensor
print(resident() - before)
"""


def test_import_needs_little_memory():
    """At most 30 MB; bench/python_calls.py prints the time."""
    run = subprocess.run([sys.executable, "-c", IMPORT], capture_output=True, text=True, check=True)
    assert 0 < float(run.stdout) < 30, run.stdout


# Every block of Python in the documentation. "<!-- not run: REASON -->" before a block excludes it.
BLOCK = re.compile(r"^(?:<!-- not run: (.*?) -->\n)?```python\n(.*?)^```", re.S | re.M)
PROGRAMS = [
    pytest.param(program, id=f"{page.name}-{k}", marks=[pytest.mark.skip(reason)] if reason else [])
    for page in [SOURCE / "README.md", *sorted((SOURCE / "docs").glob("*.md"))]
    for k, (reason, program) in enumerate(BLOCK.findall(page.read_text("utf-8")), 1)
]


def test_there_are_programs_in_the_documentation():
    assert len(PROGRAMS) >= 8


@pytest.mark.parametrize("program", PROGRAMS)
def test_program_of_the_documentation(program, tmp_path):
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, cwd=tmp_path
    )
    assert result.returncode == 0, result.stderr
