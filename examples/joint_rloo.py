"""Joint conjecturer/prover RLOO, assembled from its parts; copy it to put your own in their place.

accelerate launch examples/joint_rloo.py                        # the embedded tiny model, minutes on a laptop CPU
accelerate launch examples/joint_rloo.py --config my.yaml --learning_rate 1e-5

Settings are those of `countdown-selfplay joint --help`: flags over the file of --config over the recipe.
"""

import ast
from dataclasses import dataclass
from pathlib import Path

from trl import ModelConfig, TrlParser, get_peft_config

from countdown_selfplay import JointConjecturerProverTrainer, JointSelfPlayConfig
from countdown_selfplay.config.recipes import recipe_settings
from countdown_selfplay.config.script import EvaluationArguments
from countdown_selfplay.distributed.launch import refuse_lone_process
from countdown_selfplay.domains import domain_from
from countdown_selfplay.policies.build import model_arguments
from countdown_selfplay.training.run import data_sets, tell


@dataclass
class Script(EvaluationArguments):
    recipe: str = "tiny/default"
    dataset_name: str | None = None  # problems to train on; None: made by the exact generator
    dataset_train_split: str = "train"
    conjecturer_model_name_or_path: str | None = None  # None: the same as model_name_or_path


def value(text):
    """A text as a number, list, mapping, boolean or None, if it is one."""
    try:
        return ast.literal_eval({"true": "True", "false": "False"}.get(text, text))
    except (ValueError, SyntaxError):
        return text


if __name__ == "__main__":
    refuse_lone_process()  # `accelerate launch --num_processes 2 --cpu` starts one process
    parser = TrlParser((Script, ModelConfig))
    recipe = parser.parse_args_and_config(return_remaining_strings=True)[0].recipe
    parser.set_defaults_with_config(**recipe_settings(recipe, JointSelfPlayConfig))  # its model and data
    script, model, rest = parser.parse_args_and_config(return_remaining_strings=True)
    found = {}  # all other flags and keys are settings of the trainer: --use_cpu, --max_steps 50, --operands 3 4
    for word in rest:
        if word.startswith("--"):
            found[name := word[2:]] = []
        else:
            found[name].append(value(word))
    flags = {name: values if values[1:] else values[0] if values else True for name, values in found.items()}
    args = JointSelfPlayConfig.from_recipe(recipe, **flags)
    args.model_init_kwargs = model_arguments(model, args)
    own = script.conjecturer_model_name_or_path
    start = model.model_name_or_path if own is None else {"prover": model.model_name_or_path, "conjecturer": own}
    domain = domain_from(args)
    data, held_out = data_sets(script, domain)
    # Your own: reward_funcs=[...] for the prover, any TRL reward callables, and for the conjecturer
    # conjecturer_reward=lambda solve_rate_P, ctx: ...; also domain, game, objectives, callbacks.
    trainer = JointConjecturerProverTrainer(
        start, args=args, domain=domain, peft_config=get_peft_config(model), **data
    )
    before = trainer.evaluator.measure(held_out, script.eval_proposals, "before training")
    trainer.train(resume_from_checkpoint=args.resume_from_checkpoint)
    trainer.save_model()  # <output_dir>/prover and <output_dir>/conjecturer
    after = trainer.evaluator.measure(held_out, script.eval_proposals, "after training")
    if trainer.accelerator.is_main_process:  # evaluation.json, the table, plots and report.html
        tell(Path(args.output_dir), before, after, report=True)
    trainer.accelerator.wait_for_everyone()
