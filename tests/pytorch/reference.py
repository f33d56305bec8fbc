"""Writes what PyTorch's optimizers, schedulers and clipping do, step by step, as JSON.

    reference.py DIRECTORY

tests/pytorch_agreement_test.cpp does the same with ExTensor and compares. Inputs come from
formulas that are exact in every language, and everything is float64.
"""
import json
import math
import sys

import torch

torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)

STEPS = 24


def values(shape, offset):
    """Numbers in [-0.5, 0.5), element i from (37 · i + offset) mod 101."""
    count = math.prod(shape)
    numbers = [((37 * i + offset) % 101) / 101 - 0.5 for i in range(count)]
    return torch.tensor(numbers).reshape(shape)


def parameters():
    """Two layers, and a scale that only every third step uses."""
    made = [values([4, 5], 3), values([5], 11), values([5, 2], 29), values([2], 47), values([2], 71)]
    return [p.requires_grad_() for p in made]


def loss_of(params, step):
    w1, b1, w2, b2, scale = params
    x, y = values([6, 4], 7 + step % 5), values([6, 2], 13 + step % 5)
    hidden = torch.tanh(x @ w1 + b1)
    output = hidden @ w2 + b2
    if step % 3 == 2:
        output = output * (1 + scale)
    return ((output - y) ** 2).mean()


def flat(tensors):
    return [number for tensor in tensors for number in tensor.detach().reshape(-1).tolist()]


def flat_options(options):
    """betas is a pair here and two fields there."""
    result = {}
    for name, value in options.items():
        if isinstance(value, (tuple, list)):
            result.update({f"{name}.{i}": part for i, part in enumerate(value)})
        else:
            result[name] = float(value)
    return result


# ---- optimizers

WHOLE = [[0, 1, 2, 3, 4]]
SPLIT = [[0, 1], [2, 3, 4]]

OPTIMIZERS = [
    ("SGD", WHOLE, [{"lr": 0.1}]),
    ("SGD", WHOLE, [{"lr": 0.1, "weight_decay": 0.05, "maximize": True}]),
    ("SGD", WHOLE, [{"lr": 0.1, "momentum": 0.9}]),
    ("SGD", WHOLE, [{"lr": 0.1, "momentum": 0.8, "dampening": 0.3, "weight_decay": 0.01}]),
    ("SGD", WHOLE, [{"lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 0.02}]),
    ("SGD", SPLIT, [{"lr": 0.1}, {"lr": 0.02, "momentum": 0.9}]),
    ("Adam", WHOLE, [{}]),
    ("Adam", WHOLE, [{"lr": 0.05, "betas": (0.8, 0.95), "eps": 1e-4, "weight_decay": 0.1}]),
    ("Adam", WHOLE, [{"lr": 0.03, "amsgrad": True}]),
    ("Adam", WHOLE, [{"lr": 0.03, "maximize": True}]),
    ("Adam", SPLIT, [{"lr": 0.01}, {"lr": 0.1, "betas": (0.5, 0.9), "amsgrad": True}]),
    ("AdamW", WHOLE, [{}]),
    ("AdamW", WHOLE, [{"lr": 0.05, "betas": (0.7, 0.99), "eps": 1e-5, "weight_decay": 0.3}]),
    ("AdamW", WHOLE, [{"lr": 0.02, "amsgrad": True, "maximize": True}]),
    ("AdamW", SPLIT, [{"lr": 0.01, "weight_decay": 0.0}, {"lr": 0.1, "weight_decay": 0.2}]),
    ("RMSprop", WHOLE, [{}]),
    ("RMSprop", WHOLE, [{"lr": 0.01, "alpha": 0.9, "eps": 1e-3, "weight_decay": 0.1}]),
    ("RMSprop", WHOLE, [{"lr": 0.005, "momentum": 0.9}]),
    ("RMSprop", WHOLE, [{"lr": 0.005, "alpha": 0.9, "eps": 1e-2, "centered": True}]),
    ("RMSprop", SPLIT, [{"maximize": True}, {"momentum": 0.5, "eps": 1e-2, "centered": True}]),
    ("Adagrad", WHOLE, [{}]),
    ("Adagrad", WHOLE, [{"lr": 0.1, "lr_decay": 0.2, "weight_decay": 0.05, "eps": 1e-5}]),
    ("Adagrad", WHOLE, [{"lr": 0.1, "initial_accumulator_value": 0.3}]),
    ("Adagrad", SPLIT, [{"lr": 0.1, "maximize": True}, {"lr": 0.05, "lr_decay": 0.1}]),
    ("Adadelta", WHOLE, [{}]),
    ("Adadelta", WHOLE, [{"lr": 0.5, "rho": 0.7, "eps": 1e-2, "weight_decay": 0.1}]),
    ("Adadelta", SPLIT, [{"maximize": True}, {"lr": 2.0, "rho": 0.95, "eps": 1e-4}]),
]


def make_optimizer(name, split, options, params):
    make = getattr(torch.optim, name)
    if len(split) == 1:
        return make([params[k] for k in split[0]], **options[0])
    groups = [dict(params=[params[k] for k in group], **o) for group, o in zip(split, options)]
    # The learning rate of SGD has no default.
    return make(groups, **({"lr": 1e-3} if name == "SGD" else {}))


def optimizer_case(name, split, options):
    params = parameters()
    optimizer = make_optimizer(name, split, options, params)
    # With maximize the loss is negated: the loss itself has no upper bound.
    sign = -1 if all(o.get("maximize") for o in options) else 1
    steps = []
    for step in range(STEPS):
        optimizer.zero_grad(set_to_none=True)
        (sign * loss_of(params, step)).backward()
        optimizer.step()
        steps.append(flat(params))
    state = {}
    for index, saved in optimizer.state_dict()["state"].items():
        for key, value in saved.items():
            if torch.is_tensor(value) and key != "step":
                state[f"state.{index}.{key}"] = flat([value])
            elif value is not None:
                state[f"state.{index}.{key}"] = float(value)
    return {
        "optimizer": name,
        "groups": split,
        "options": [flat_options(o) for o in options],
        "sign": sign,
        "parameters": steps,
        "state": state,
    }


# ---- schedulers

SCHEDULERS = [
    ("StepLR", {"step_size": 4}),
    ("StepLR", {"step_size": 3, "gamma": 0.7}),
    ("MultiStepLR", {"milestones": [2, 5, 5, 17]}),
    ("MultiStepLR", {"milestones": [10], "gamma": 0.5}),
    ("ExponentialLR", {"gamma": 0.9}),
    ("CosineAnnealingLR", {"T_max": 10}),
    ("CosineAnnealingLR", {"T_max": 7, "eta_min": 0.003}),
    ("CosineAnnealingLR", {"T_max": 1}),
    ("CosineAnnealingWarmRestarts", {"T_0": 5}),
    ("CosineAnnealingWarmRestarts", {"T_0": 3, "T_mult": 2, "eta_min": 0.001}),
    ("LinearLR", {}),
    ("LinearLR", {"start_factor": 0.1, "end_factor": 0.8, "total_iters": 12}),
    ("LinearLR", {"start_factor": 1.0, "end_factor": 0.0, "total_iters": 8}),
    ("PolynomialLR", {}),
    ("PolynomialLR", {"total_iters": 15, "power": 2.5}),
    ("OneCycleLR", {"max_lr": 0.5, "total_steps": STEPS}),
    ("OneCycleLR", {"max_lr": [0.5, 0.2], "epochs": 5, "steps_per_epoch": 6, "pct_start": 0.4}),
    ("OneCycleLR", {"max_lr": 0.5, "total_steps": 30, "anneal_strategy": "linear"}),
    ("OneCycleLR", {"max_lr": 0.5, "total_steps": 26, "three_phase": True, "div_factor": 10.0,
                    "final_div_factor": 100.0, "base_momentum": 0.8, "max_momentum": 0.9}),
    ("OneCycleLR", {"max_lr": 0.3, "total_steps": 40, "cycle_momentum": False}),
]

SEQUENCES = [
    ([("LinearLR", {"start_factor": 0.1, "total_iters": 4}), ("CosineAnnealingLR", {"T_max": 16})],
     [4]),
    ([("LinearLR", {"total_iters": 3}), ("StepLR", {"step_size": 3}),
      ("ExponentialLR", {"gamma": 0.8})], [3, 13]),
    ([("ExponentialLR", {"gamma": 0.9}), ("CosineAnnealingWarmRestarts", {"T_0": 4, "T_mult": 2})],
     [6]),
    ([("PolynomialLR", {"total_iters": 10}), ("MultiStepLR", {"milestones": [2, 4]})], [7]),
]

# Several on one optimizer, each stepped.
TOGETHER = [
    [("LinearLR", {"start_factor": 0.2, "total_iters": 6}), ("ExponentialLR", {"gamma": 0.95})],
    [("StepLR", {"step_size": 5, "gamma": 0.5}), ("CosineAnnealingLR", {"T_max": 9})],
]

PLATEAUS = [
    {"patience": 2},
    {"patience": 1, "factor": 0.5, "cooldown": 3, "min_lr": 0.004},
    {"mode": "max", "patience": 2, "threshold": 0.02, "threshold_mode": "abs"},
    {"mode": "max", "patience": 0, "factor": 0.8, "threshold": 0.05, "eps": 0.02,
     "min_lr": [0.01, 0.001]},
    {"threshold_mode": "abs", "threshold": 0.1, "patience": 1, "factor": 0.3},
]


def momentum_of(group):
    return group["betas"][0] if "betas" in group else group.get("momentum", 0.0)


def schedule(optimizer_name, make, advance):
    """Trains with the schedulers that make(optimizer) gives and advance(them, step) steps."""
    params = parameters()
    options = [{"lr": 0.1}, {"lr": 0.02}]
    if optimizer_name == "SGD":
        options[1]["momentum"] = 0.6
    optimizer = make_optimizer(optimizer_name, SPLIT, options, params)
    schedulers = make(optimizer)

    def now():
        groups = optimizer.param_groups
        return {"lr": [g["lr"] for g in groups], "momentum": [momentum_of(g) for g in groups],
                "parameters": flat(params)}

    steps = [now()]
    for step in range(STEPS):
        optimizer.zero_grad(set_to_none=True)
        loss_of(params, step).backward()
        optimizer.step()
        advance(schedulers, step)
        steps.append(now())
    return {"optimizer": optimizer_name, "options": [flat_options(o) for o in options],
            "steps": steps}


def one(name, options):
    return lambda optimizer: getattr(torch.optim.lr_scheduler, name)(optimizer, **options)


def describe(parts):
    return [{"scheduler": name, "options": options} for name, options in parts]


def scheduler_cases():
    cases = []
    for optimizer in ["SGD", "AdamW"]:
        for name, options in SCHEDULERS:
            case = schedule(optimizer, one(name, options), lambda s, _: s.step())
            cases.append({**case, "kind": "one", "parts": describe([(name, options)])})
    for parts, milestones in SEQUENCES:
        def make(optimizer):
            made = [one(name, options)(optimizer) for name, options in parts]
            return torch.optim.lr_scheduler.SequentialLR(optimizer, made, milestones)
        case = schedule("SGD", make, lambda s, _: s.step())
        cases.append({**case, "kind": "sequence", "parts": describe(parts),
                      "milestones": milestones})
    for parts in TOGETHER:
        case = schedule("SGD", lambda o: [one(*part)(o) for part in parts],
                        lambda all, _: [s.step() for s in all])
        cases.append({**case, "kind": "together", "parts": describe(parts)})
    for t_mult in [1, 2]:
        options = {"T_0": 4, "T_mult": t_mult, "eta_min": 0.002}
        epochs = [0.3 * (step + 1) for step in range(STEPS)]
        case = schedule("SGD", one("CosineAnnealingWarmRestarts", options),
                        lambda s, step: s.step(epochs[step]))
        cases.append({**case, "kind": "fractional", "epochs": epochs,
                      "parts": describe([("CosineAnnealingWarmRestarts", options)])})
    for options in PLATEAUS:
        metrics = [1 + ((37 * step) % 11) / 40 - step / 60 for step in range(STEPS)]
        case = schedule("SGD", one("ReduceLROnPlateau", options),
                        lambda s, step: s.step(metrics[step]))
        cases.append({**case, "kind": "plateau", "metrics": metrics,
                      "parts": describe([("ReduceLROnPlateau", options)])})
    return cases


# ---- clipping and averages

def clip_cases():
    cases = []
    for norm_type in [1.0, 2.0, 3.0, math.inf]:
        for max_norm in [0.05, 1.0, 1000.0]:
            params = parameters()
            loss_of(params, 0).backward()
            norm = torch.nn.utils.clip_grad_norm_(params, max_norm, norm_type)
            grads = [p.grad for p in params if p.grad is not None]
            cases.append({"max_norm": max_norm, "norm_type": str(norm_type), "norm": float(norm),
                          "grads": flat(grads)})
    params = parameters()
    loss_of(params, 2).backward()
    torch.nn.utils.clip_grad_value_(params, 0.01)
    return {"norms": cases, "clip_value": 0.01, "values": flat([p.grad for p in params])}


def average_case():
    params = torch.nn.ParameterList([torch.nn.Parameter(p.detach()) for p in parameters()])
    decay = 0.9
    average = torch.optim.swa_utils.AveragedModel(
        params, avg_fn=lambda a, p, _: decay * a + (1 - decay) * p)
    average.update_parameters(params)  # the first is a copy
    optimizer = torch.optim.SGD(params, lr=0.1)
    steps = []
    for step in range(STEPS):
        optimizer.zero_grad(set_to_none=True)
        loss_of(list(params), step).backward()
        optimizer.step()
        average.update_parameters(params)
        steps.append(flat(average.module))
    return {"decay": decay, "averages": steps}


def main(directory):
    reference = {
        "torch": torch.__version__,
        "optimizers": [optimizer_case(*case) for case in OPTIMIZERS],
        "schedulers": scheduler_cases(),
        "clipping": clip_cases(),
        "average": average_case(),
    }
    with open(f"{directory}/optim.json", "w") as file:
        json.dump(reference, file)


if __name__ == "__main__":
    main(sys.argv[1])
