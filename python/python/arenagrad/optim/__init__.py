"""Optimisers and schedules, with torch's names, formulas and defaults.

Settings that all optimisers have: `clip_value`, `clip_norm`, `norm_type`, `clip_each`, `ema`, `loss_scale`,
`accumulate`, `decay_from_rank`, `group`. A setting that the kind does not have is an error that names those it has.

>>> import arenagrad as ag
>>> ag.optim.Sgd(0.1, momentum=0.9, clip_norm=1.0).freeze("emb.*").group("head.*", lr_scale=0.1)
Sgd(lr=0.1, clip_norm=1.0, momentum=0.9).freeze('emb.*').group('head.*')
>>> ag.optim.Sgd(0.1, betas=(0.9, 0.99))
Traceback (most recent call last):
    ...
TypeError: Sgd() got an unexpected keyword argument 'betas'
"""

from __future__ import annotations

from .._arenagrad import Optimiser, Schedule
from . import schedules
from ._kinds import (
    Adadelta,
    Adafactor,
    Adagrad,
    Adam,
    Adamax,
    AdamW,
    Lamb,
    Lbfgs,
    Lion,
    Muon,
    NAdam,
    NAdamW,
    RAdam,
    RmsProp,
    Sgd,
    SparseAdam,
)

__all__ = [
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Lamb",
    "Lbfgs",
    "Lion",
    "Muon",
    "NAdam",
    "NAdamW",
    "Optimiser",
    "RAdam",
    "RmsProp",
    "Schedule",
    "Sgd",
    "SparseAdam",
    "schedules",
]
