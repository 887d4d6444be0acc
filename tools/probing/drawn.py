"""Forms whose arguments are drawn by the names of a class's parameters; a form's own name tells its arguments."""

from __future__ import annotations

import ast
import functools
import inspect
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tools.probing.kinds.protocol import Form, Keras, Kind
from tools.probing.kinds.stepping import examples

_YES_OR_NO = (False, True)
_CONSTANTS = (0.0, 0.5)
# What a parameter of this name may be, whatever class has it; what a class refuses on one device is left out. A loss
# that is a mean of what it is given is not drawn: with replicas that is a mean of means, and no program should want it.
_VALUES: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("activation", "recurrent_activation"), ("tanh", "gelu", "softplus", "hard_sigmoid")),
    **dict.fromkeys(("mask_value", "fill_value", "offset", "l1", "l2", "threshold"), _CONSTANTS),
    **dict.fromkeys(("kernel_size", "depth_multiplier", "strides", "dilation_rate", "num_oov_indices"), (1, 2)),
    **dict.fromkeys(("negative_slope", "alpha", "delta", "gamma", "beta", "q", "factor"), (0.3, 0.8)),
    **dict.fromkeys(("momentum", "rho", "beta_1", "beta_2", "ema_momentum"), (0.5, 0.8)),
    **dict.fromkeys(("clipnorm", "clipvalue", "global_clipnorm"), (0.01, 0.1)),
    **dict.fromkeys(("epsilon", "weight_decay", "label_smoothing", "initial_accumulator_value"), (0.01, 0.1)),
    **dict.fromkeys(("use_bias", "unit_forget_bias", "reset_after", "use_scale", "rms_scaling"), _YES_OR_NO),
    **dict.fromkeys(("return_sequences", "go_backwards", "unroll", "mask_zero", "keepdims"), _YES_OR_NO),
    **dict.fromkeys(("nesterov", "amsgrad", "centered", "center", "scale", "use_ema", "from_logits"), _YES_OR_NO),
    **dict.fromkeys(("normalize", "crop_to_aspect_ratio", "sparse"), _YES_OR_NO),
    **dict.fromkeys(("dropout", "recurrent_dropout"), (0.2, 0.5)),
    "apply_class_balancing": _YES_OR_NO,
    "axis": (-1, 1),
    "average": ("micro", "macro", "weighted"),
    "class_id": (0, 2),
    "curve": ("ROC", "PR"),
    "data_format": ("channels_first", "channels_last"),
    "dtype": ("float64",),  # of coarse ones most is not judged; the circumstance `half` has them
    "ema_overwrite_frequency": (1, 2),
    "fill_mode": ("constant", "nearest", "reflect", "wrap"),
    "gradient_accumulation_steps": (2,),
    "ignore_class": (0, 3),
    "interpolation": ("bilinear", "nearest"),
    "loss_scale_factor": (8.0, 1024.0),
    "max_value": (0.5, 2.0),
    "num_thresholds": (3, 20),
    "output_mode": ("int", "one_hot", "multi_hot", "count"),
    "padding": ("valid", "same", "causal"),
    "reduction": ("sum", "none"),
    "summation_method": ("minoring", "majoring"),
    "thresholds": (0.2, 0.4),
    "top_k": (1, 3),
}
_ENDINGS: dict[str, tuple[Any, ...]] = {
    "_regularizer": ("l1", "l2"),
    "_constraint": ("max_norm", "non_neg", "unit_norm"),
    "_initializer": ("ones", "glorot_uniform", "he_normal"),
}
_ARGUMENTS_MAX = 3
# So many draws for each form that is wanted: classes refuse some.
_DRAWS = 4


class Drawn(NamedTuple):
    """What was drawn for a kind.

    Attributes:
        names: of the forms.
        refused: how many combinations a class refuses on one device.
    """

    names: tuple[str, ...]
    refused: int


def is_drawn(form: str) -> bool:
    """Whether the arguments of a form were drawn, by its name."""
    return "=" in form


def named_form(forms: Mapping[str, Form], name: str) -> Form:
    """The form of this name: one by hand, or such a form of the class with further arguments."""
    if not is_drawn(name):
        return forms[name]
    public, _, arguments = name.partition(":")
    options = {key: _value(text) for key, _, text in (each.partition("=") for each in arguments.split(","))}
    by_hand = next(form for form in forms.values() if form.public == public)
    return by_hand._replace(make=functools.partial(by_hand.make, **options))


def _value(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except ValueError:
        return text


def draw_forms(keras: Keras, kind: Kind, count: int, seed: int) -> Drawn:
    """So many forms of each class whose forms by hand take further arguments; as many as there are, if that is less."""
    forms, names, refused = kind.forms(keras), list[str](), 0
    classes = dict.fromkeys(form.public for form in forms.values() if form.public)
    for public in classes if kind.work is not None and count else ():
        found = set[str]()
        for options in _options(getattr(getattr(keras, kind.module), public), count, seed):
            name = f"{public}:{','.join(f'{key}={options[key]}' for key in sorted(options))}"
            if name in found or len(found) == count:
                continue
            if _is_refused(keras, kind, {name: named_form(forms, name)}):
                refused += 1
            else:
                found.add(name)
        names += sorted(found)
    return Drawn(tuple(names), refused)


def _options(public: type, count: int, seed: int) -> list[dict[str, Any]]:
    """Arguments for a class, without the first ones that Hypothesis draws: these always are the simplest."""
    from hypothesis import HealthCheck, Phase, given, settings, strategies
    from hypothesis import seed as seeded

    values = {name: _values(name) for name in sorted(set(_parameters(public))) if _values(name)}
    if not values:
        return []
    few = strategies.lists(strategies.sampled_from(list(values)), min_size=1, max_size=_ARGUMENTS_MAX, unique=True)
    chosen = few.flatmap(
        lambda names: strategies.fixed_dictionaries({name: strategies.sampled_from(values[name]) for name in names})
    )
    found: list[dict[str, Any]] = []

    @seeded(zlib.crc32(f"{public.__module__}.{public.__name__}/{seed}".encode()))
    @settings(
        max_examples=_DRAWS * count + 1,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(chosen)
    def draw(options: dict[str, Any]) -> None:
        found.append(options)

    draw()
    return found[1:]


def _values(parameter: str) -> tuple[Any, ...]:
    ending = next((values for end, values in _ENDINGS.items() if parameter.endswith(end)), ())
    return _VALUES.get(parameter, ending)


def _parameters(public: type) -> Iterator[str]:
    """The names of a constructor's parameters, with those of the bases to which it hands on what it does not know."""
    for each in public.__mro__:
        if "__init__" in vars(each):
            given = inspect.signature(vars(each)["__init__"]).parameters
            yield from given
            if all(parameter.kind is not parameter.VAR_KEYWORD for parameter in given.values()):
                return


def _is_refused(keras: Keras, kind: Kind, forms: Mapping[str, Form]) -> bool:
    """Whether the class does not take the arguments, or one row after that."""
    assert kind.work is not None
    try:
        made = kind.work(keras, forms, 1)
        _, gradients = made.compute(examples(1, made.inputs))
        made.update(gradients)
        made.results()
    except Exception:  # noqa: BLE001 - a class says in many ways what it does not take
        return True
    return False
