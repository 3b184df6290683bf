"""Better agents from their own runs: datasets, fine-tuning, instruction optimisation."""

from orbiter.train.budget import Budget, Spent
from orbiter.train.dataset import DatasetFile, write_preferences, write_sft
from orbiter.train.formats import openai_preference, openai_sft, trl_preference, trl_sft
from orbiter.train.openai import OpenAITrainer
from orbiter.train.optimization import Attempt, Optimization
from orbiter.train.optimizer import InstructionOptimizer, with_instructions
from orbiter.train.preference import PreferencePair, preference_pairs
from orbiter.train.proposer import Proposal, Proposer
from orbiter.train.recorder import Recorder
from orbiter.train.trainer import Trainer, TrainingJob, wait
from orbiter.train.trajectory import (
    TrainingError,
    Trajectory,
    load_trajectories,
    save_trajectories,
    select,
    trajectories_of,
    with_scores,
)
from orbiter.train.trl import TrlTrainer

__all__ = [
    "Attempt",
    "Budget",
    "DatasetFile",
    "InstructionOptimizer",
    "OpenAITrainer",
    "Optimization",
    "PreferencePair",
    "Proposal",
    "Proposer",
    "Recorder",
    "Spent",
    "Trainer",
    "TrainingError",
    "TrainingJob",
    "Trajectory",
    "TrlTrainer",
    "load_trajectories",
    "openai_preference",
    "openai_sft",
    "preference_pairs",
    "save_trajectories",
    "select",
    "trajectories_of",
    "trl_preference",
    "trl_sft",
    "wait",
    "with_instructions",
    "with_scores",
    "write_preferences",
    "write_sft",
]
