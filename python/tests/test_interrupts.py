"""Ctrl-C in long calls, exceptions in callbacks, forks, threads, and objects that die while a view
lives. What could hang or crash runs in a child process."""

import gc
import os
import signal
import subprocess
import sys
import threading
import traceback

import numpy as np
import pytest

import extensor as ex
from extensor import data, nn, optim, train
from extensor.autograd import Function

# Prints "ready" where the long call begins; SIGINT is sent then.
PRELUDE = """
import sys, threading, time
import extensor as ex
from extensor import data, nn, optim, train
def ready():
    print("ready", flush=True)
"""


def interrupted(program, tmp_path, signals=1):
    """The output of a program that gets SIGINT after it printed "ready"."""
    child = subprocess.Popen(
        [sys.executable, "-c", PRELUDE + program], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, cwd=tmp_path,
    )  # fmt: skip
    try:
        if child.stdout.readline() != "ready\n":
            child.kill()  # reading its errors would wait for its end
            pytest.fail(child.communicate()[1])
        for _ in range(signals):
            threading.Event().wait(0.3)
            child.send_signal(signal.SIGINT)
        output, errors = child.communicate(timeout=60)
    finally:
        child.kill()
        child.wait()
    assert child.returncode == 0, errors
    return output


def test_one_long_call(tmp_path):
    """A call that would run for hours ends between two kernels, and its arguments are unchanged."""
    output = interrupted("""
from extensor import models
model = models.Gpt(vocabulary=16, block=32, layers=2, heads=2, width=32).eval()
before = {name: x.tolist() for name, x in model.state_dict().items()}
try:
    ready()
    models.generate(model, ex.tensor([[1, 2, 3]]), tokens=10**8)
except KeyboardInterrupt:
    print("interrupted", {name: x.tolist() for name, x in model.state_dict().items()} == before)
    print(models.generate(model, ex.tensor([[1]]), tokens=2).shape)
""", tmp_path)  # fmt: skip
    assert output == "interrupted True\n(1, 2)\n"


def test_python_loop(tmp_path):
    output = interrupted("""
x = ex.ones(300, 300)
try:
    ready()
    while True:
        x = x @ x / 300
except KeyboardInterrupt:
    print(x.shape, bool(ex.isfinite(x).all()))
""", tmp_path)  # fmt: skip
    assert output == "(300, 300) True\n"


def test_trainer(tmp_path):
    """The step is completed, a checkpoint is written, and the run resumes from it."""
    output = interrupted("""
def trainer():
    ex.manual_seed(1)
    model = nn.Linear(4, 3)
    made = train.Trainer(model, optim.SGD(model.parameters(), lr=0.01), epochs=10**9,
                         checkpoints="run", checkpoint_every=10**9)
    return made, data.DataLoader(data.TensorDataset(ex.ones(8, 4), ex.zeros(8, dtype="int64")), 4)
first, loader = trainer()
class Ready(train.Callback):
    def step(self, step):
        if step.step == 3:
            ready()
first.add(Ready())
try:
    first.fit(loader)
except KeyboardInterrupt:
    second, _ = trainer()
    found = second.resume()
    print(found.step == first.step == second.step > 3, second.model.weight.tolist() == first.model.weight.tolist())
import signal
print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
""", tmp_path)  # fmt: skip
    assert output == "True True\nTrue\n"


def test_end_of_an_evaluation():
    """Ctrl-C while the modes of a model are set again arrives as KeyboardInterrupt."""
    run = subprocess.run([sys.executable, "-c", PRELUDE + """
import signal
class Interrupted(nn.Linear):
    def _set_training(self, mode):
        super()._set_training(mode)
        if mode:
            signal.raise_signal(signal.SIGINT)
class Broken(Interrupted):
    def forward(self, x):
        raise LookupError("in forward")
loader = data.DataLoader(data.TensorDataset(ex.ones(4, 2), ex.zeros(4, dtype="int64")), 2)
for model in (Interrupted(2, 2), Broken(2, 2)):
    try:
        train.evaluate(model, loader)
    except (KeyboardInterrupt, LookupError) as error:
        print(repr(error), model.training)
"""], capture_output=True, text=True, timeout=60)  # fmt: skip
    assert run.stdout == "KeyboardInterrupt() True\nLookupError('in forward') True\n", run.stderr


def test_loader_with_workers(tmp_path):
    output = interrupted("""
class Slow:
    def __len__(self):
        return 10**6
    def __getitem__(self, k):
        if k == 0:
            ready()
        time.sleep(0.02)
        return k
try:
    for batch in data.DataLoader(Slow(), 100, workers=1):
        pass
except KeyboardInterrupt:
    print("interrupted", threading.active_count() <= 2)
""", tmp_path)  # fmt: skip
    assert output == "interrupted True\n"


class Numbers:
    def __len__(self):
        return 12

    def __getitem__(self, k):
        return ex.tensor([float(k)]), k % 3


class Failing(Numbers):
    def __getitem__(self, k):
        if k == 7:
            raise LookupError("example seven")
        return super().__getitem__(k)


def failing_collate(examples):
    raise LookupError("in collate")


@pytest.mark.parametrize("workers", [0, 2])
def test_exceptions_of_data_arrive_unchanged(workers):
    loader = data.DataLoader(Failing(), 2, workers=workers)
    seen = []
    with pytest.raises(LookupError, match="example seven") as caught:
        for _, y in loader:
            seen.append(y.tolist())
    assert seen == [[0, 1], [2, 0], [1, 2]]  # the batches before it
    assert "raise LookupError(\"example seven\")" in "".join(traceback.format_tb(caught.tb))
    with pytest.raises(LookupError, match="in collate"):
        next(iter(data.DataLoader(Numbers(), 2, workers=workers, collate_fn=failing_collate)))
    model = nn.Linear(1, 3)
    trainer = train.Trainer(model, optim.SGD(model.parameters(), lr=0.1))
    with pytest.raises(LookupError, match="example seven"):
        trainer.fit(loader)


def test_threads_that_share_an_iteration():
    """Like a generator, it refuses a second call of next(); every batch arrives once."""
    run = subprocess.run([sys.executable, "-c", """
import threading
import extensor as ex
from extensor import data
class Numbers:
    def __len__(self):
        return 300
    def __getitem__(self, k):
        return ex.ones(2) * k
for closes in (False, True):
    for workers in (0, 2):
        batches = iter(data.DataLoader(Numbers(), 2, workers=workers))
        seen = []
        def read():
            while True:
                try:
                    seen.append(next(batches)[0, 0].item())
                except StopIteration:
                    return
                except ex.ValueError as error:
                    assert "waiting for a batch already" in str(error), error
        threads = [threading.Thread(target=read) for _ in range(4)]
        for thread in threads:
            thread.start()
        if closes:
            batches.close()
        for thread in threads:
            thread.join()
        assert sorted(seen) == list(range(0, 300, 2)) or closes and len(seen) == len(set(seen)), seen
print("ok")
"""], capture_output=True, text=True, timeout=100)  # fmt: skip
    assert run.stdout == "ok\n", run.stderr


def test_calls_at_once_are_refused():
    """Of a trainer and of an optimizer, whose calls run without the interpreter's lock."""
    run = subprocess.run([sys.executable, "-c", """
import threading
import extensor as ex
from extensor import data, nn, optim, train
model = nn.Linear(300, 300)
optimizer = optim.Adam(model.parameters(), lr=0.01)
model(ex.ones(2, 300)).sum().backward()
loader = data.DataLoader(data.TensorDataset(ex.ones(400, 2), ex.zeros(400, dtype="int64")), 4)
small = nn.Linear(2, 2)
trainer = train.Trainer(small, optim.SGD(small.parameters(), lr=0.1))
refused = set()
class Nested(train.Callback):
    def step(self, step):
        try:
            trainer.fit(loader)
        except ex.ValueError as error:
            refused.add(str(error).split(":")[0])
trainer.add(Nested())
def call(function):
    for _ in range(100):
        try:
            function()
        except ex.ValueError as error:
            assert "one call at a time" in str(error), error
def states():
    optimizer.load_state_dict(optimizer.state_dict())
threads = [threading.Thread(target=call, args=(function,))
           for function in (optimizer.step, optimizer.step, states)]
threads.append(threading.Thread(target=trainer.fit, args=(loader,)))
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(refused)
"""], capture_output=True, text=True, timeout=100)  # fmt: skip
    assert run.stdout == "{'Trainer.fit'}\n", run.stderr


def test_a_trainer_reserves_what_it_uses():
    """While it trains, other threads may not train its model, nor step or change its optimizer and
    schedules. Callbacks may change them."""
    model = nn.Linear(2, 2)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    state, scaler, other = optimizer.state_dict(), optim.GradScaler(), optim.StepLR(optimizer, step_size=9)
    plateau, schedule = optim.ReduceLROnPlateau(optimizer), optim.LambdaLR(optimizer, lambda epoch: 1.0)
    calls = [
        optimizer.step, optimizer.zero_grad, optimizer.state_dict, lambda: optimizer.set_lr(0.2),
        lambda: optimizer.load_state_dict(state),
        lambda: optimizer.add_param_group({"params": [nn.Parameter([1.0])]}),
        lambda: scaler.unscale(optimizer), lambda: scaler.step(optimizer), lambda: plateau.step(1.0),
        other.step, schedule.step, schedule.state_dict,
    ]  # fmt: skip
    accepted = []

    def work():
        for k, function in enumerate(calls):
            try:
                function()
                accepted.append(k)
            except ex.ValueError as error:
                assert "one call at a time" in str(error)

    class Watching(train.Callback):
        def step(self, step):
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
            optimizer.set_lr(0.3)
            other.step()

    trainer = train.Trainer(model, optimizer, schedule=schedule)
    loader = data.DataLoader(data.TensorDataset(ex.ones(4, 2), ex.zeros(4, dtype="int64")), 2)
    second = train.Trainer(model, optim.SGD(model.parameters(), lr=0.1))
    calls.append(lambda: second.fit(loader))
    trainer.add(Watching())
    trainer.fit(loader)
    assert accepted == [] and other.last_epoch == 2
    work()
    assert accepted == list(range(len(calls)))


def test_calls_that_lead_to_themselves_are_refused():
    w = nn.Parameter([1.0])
    lbfgs = optim.LBFGS([w])
    with pytest.raises(ex.ValueError, match="LBFGS.step: another call"):
        lbfgs.step(lambda: lbfgs.step(lambda: (w * w).sum()))
    schedule = optim.LambdaLR(optim.SGD([w], lr=1.0), lambda epoch: schedule.step() if epoch else 1.0)
    with pytest.raises(ex.ValueError, match="LRScheduler.step: another call"):
        schedule.step()


def test_exceptions_of_callbacks_arrive_unchanged(tmp_path):
    class Broken(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            raise LookupError("in backward")

    def hook(gradient):
        raise LookupError("in the hook")

    x = ex.ones(2).requires_grad_()
    with pytest.raises(LookupError, match="in backward") as caught:
        Broken.apply(x).sum().backward()
    assert "raise LookupError(\"in backward\")" in "".join(traceback.format_tb(caught.tb))
    handle = x.register_hook(hook)
    with pytest.raises(LookupError, match="in the hook"):
        (x * 2).sum().backward()
    handle.remove()
    x.grad = None
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2, 2]

    class Loud(train.Callback):
        def step(self, step):
            raise LookupError("in the callback")

    class Forgetful(train.Callback):
        def state_dict(self):
            return None

    model = nn.Linear(1, 3)
    trainer = train.Trainer(model, optim.SGD(model.parameters(), lr=0.1), checkpoints=tmp_path, checkpoint_every=1)
    trainer.add(Forgetful())
    with pytest.raises(TypeError, match="state_dict.. of a callback is NoneType .accepted: a dict"):
        trainer.fit(data.DataLoader(Numbers(), 4))
    for options, callback, message in (
        ({}, Loud(), "in the callback"),
        ({"loss": lambda output, target: 1 / 0}, None, "division"),
        ({"stop": lambda: 1 / 0}, None, "division"),
    ):
        trainer = train.Trainer(model, optim.SGD(model.parameters(), lr=0.1), **options)
        if callback is not None:
            trainer.add(callback)
        with pytest.raises((LookupError, ZeroDivisionError), match=message):
            trainer.fit(data.DataLoader(Numbers(), 4))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes(method, tmp_path):
    """Children compute after the parent has used all threads, with its tensors and a new loader."""
    (tmp_path / "job.py").write_text("""
import multiprocessing, sys
import extensor as ex
from extensor import data
def work(x, results):
    y = (x @ x).sum().item()
    loader = data.DataLoader(data.TensorDataset(x), 50, workers=2)
    results.put((y, sum(len(batch[0]) for batch in loader)))
if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    x = ex.ones(200, 200)
    before = (x @ x).sum().item()
    loader = iter(data.DataLoader(data.TensorDataset(x), 2, workers=2))
    next(loader)
    results = context.Queue()
    children = [context.Process(target=work, args=(x, results)) for _ in range(2)]
    for child in children:
        child.start()
    found = [results.get(timeout=50) for _ in children]
    for child in children:
        child.join(50)
    print(all(value == (before, 200) for value in found), [child.exitcode for child in children])
""")
    run = subprocess.run(
        [sys.executable, str(tmp_path / "job.py"), method], capture_output=True, text=True, timeout=100
    )
    assert run.stdout == "True [0, 0]\n", run.stderr


def test_iteration_does_not_continue_after_a_fork(tmp_path):
    run = subprocess.run([sys.executable, "-c", """
import os
import extensor as ex
from extensor import data
batches = iter(data.DataLoader(data.TensorDataset(ex.arange(100)), 2, workers=2))
next(batches)
if os.fork() == 0:
    try:
        next(batches)
    except ex.ValueError as error:
        print(error, flush=True)
    os._exit(0)
os.wait()
print(len(list(batches)))
"""], capture_output=True, text=True, timeout=60)  # fmt: skip
    assert "begun in another process" in run.stdout and run.stdout.endswith("49\n"), run.stderr


def test_threads_share_a_model():
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).eval()
    x = ex.randn(64, 4)
    expected = model(x).tolist()
    wrong, loaded = [], []

    def work():
        for _ in range(50):
            if model(x).tolist() != expected:
                wrong.append(1)
        loaded.append(sum(len(y) for _, y in data.DataLoader(Numbers(), 5, workers=2)))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and loaded == [12] * 4


def test_memory_outlives_its_owner():
    """A view, an array and a capsule keep the memory of a tensor that is gone, and the reverse."""
    x = ex.arange(1000)
    view, array, capsule = x[10:20], np.asarray(x), x.__dlpack__()
    del x
    gc.collect()
    ex.ones(1000)
    assert view.tolist() == list(range(10, 20)) and array[999] == 999
    assert ex.from_dlpack(capsule)[5].item() == 5
    with pytest.raises((ex.ValueError, ValueError, TypeError)):
        ex.from_dlpack(capsule)  # it was consumed
    array = np.arange(1000.0)[::-2]
    array.flags.writeable = False
    y = ex.asarray(array)
    del array
    gc.collect()
    assert y[:3].tolist() == [999, 997, 995]
    with pytest.raises(ValueError):
        y[0] = 1
    batches = iter(data.DataLoader(Numbers(), 4, workers=2))
    inputs, _ = next(batches)
    del batches
    gc.collect()
    assert inputs.flatten().tolist() == [0, 1, 2, 3]


def test_paths_that_are_not_utf8(tmp_path):
    path = os.fsencode(tmp_path) + b"/\xff\xfe.safetensors"
    for name in (path, os.fsdecode(path)):
        ex.save_safetensors(name, {"a": ex.ones(2)})
        assert ex.load_safetensors(name).tensors["a"].tolist() == [1, 1]


def test_interpreter_ends_during_an_iteration():
    """Workers that still hold a batch do not disturb the end of the process."""
    run = subprocess.run([sys.executable, "-c", """
import extensor as ex
from extensor import data
class Numbers:
    def __len__(self): return 10**6
    def __getitem__(self, k): return k
batches = iter(data.DataLoader(Numbers(), 10, workers=3))
print(next(batches).tolist())
"""], capture_output=True, text=True, timeout=60)  # fmt: skip
    assert run.returncode == 0 and run.stderr == "" and run.stdout.startswith("[0, 1, 2"), run.stderr


def test_threads_take_gradients_of_one_graph():
    """A thread that waits for a node does not hold the lock that the node's backward in Python needs."""
    run = subprocess.run([sys.executable, "-c", """
import threading, time
import extensor as ex
class Slow(ex.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2
    @staticmethod
    def backward(ctx, gradient):
        time.sleep(0.05)
        return gradient * 2
x = ex.ones(2).requires_grad_()
loss = Slow.apply(x).sum()
found = []
def work():
    found.append(ex.autograd.grad([loss], [x], retain_graph=True)[0].tolist())
    found.append(ex.autograd.grad(loss, [x], retain_graph=True)[0].tolist())
threads = [threading.Thread(target=work, daemon=True) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(found == [[2, 2]] * 6)
"""], capture_output=True, text=True, timeout=20)  # fmt: skip
    assert run.stdout == "True\n", run.stderr


ENDS_DURING_CALLS = {
    "kernel": """
x = ex.ones(64, 64)
def work():
    while True:
        x @ x
""",
    "gradient": """
class Same(ex.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1
    @staticmethod
    def backward(ctx, gradient):
        for _ in range(1000):
            pass
        return gradient
x = ex.ones(4).requires_grad_()
def work():
    while True:
        Same.apply(x).sum().backward()
""",
    "closure": """
def closure():
    while True:
        pass
def work():
    optim.LBFGS([nn.Parameter([1.0])]).step(closure)
""",
    "trainer": """
class Numbers:
    def __len__(self): return 64
    def __getitem__(self, k):
        for _ in range(1000):
            pass
        return ex.ones(4) * k, k % 2
loader = data.DataLoader(Numbers(), 2, workers=2)
def work():
    model = nn.Linear(4, 2)
    train.Trainer(model, optim.SGD(model.parameters(), lr=0.0), epochs=10**6).fit(loader)
""",
}


@pytest.mark.parametrize("name", ENDS_DURING_CALLS)
def test_interpreter_ends_during_calls_of_other_threads(name):
    """Daemon threads in the middle of a call do not disturb the end of the process."""
    program = PRELUDE + ENDS_DURING_CALLS[name] + """
for _ in range(2):
    threading.Thread(target=work, daemon=True).start()
    time.sleep(0.15)
"""
    for _ in range(3):
        run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
        assert run.returncode == 0 and run.stderr == "", run.stderr
