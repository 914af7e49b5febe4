"""Joint conjecturer/prover RLOO, assembled from its parts; copy it to put your own in their place.

accelerate launch examples/joint_rloo.py                        # the embedded tiny model, minutes on a laptop CPU
accelerate launch examples/joint_rloo.py --recipe qwen2.5-0.5b/anchored_shaped_fixed --dry_run
accelerate launch examples/joint_rloo.py --config my.yaml --max_steps 50
"""

from pathlib import Path

from countdown_selfplay import JointConjecturerProverTrainer
from countdown_selfplay.cli.joint import build_arguments, control_of, parse, plan
from countdown_selfplay.cli.main import as_program
from countdown_selfplay.config.countdown_fields import domain_from
from countdown_selfplay.training.evaluation import measure
from countdown_selfplay.training.exports import export_policies
from countdown_selfplay.training.run import data_sets, play_control, quiet_loading, tell
from countdown_selfplay.training.run_lock import run_lock


def main(argv: list[str]) -> int:
    # Settings: recipe < --config file < flags; in Python JointSelfPlayConfig.from_recipe("tiny/default", max_steps=50)
    script, args, model = parse(argv)
    if script.dry_run or script.probe:
        return plan(script, args, model)
    control = control_of(argv, script, args)  # a second run, without a conjecturer

    # Data: problems to train on and held-out ones to measure with, files or data sets or made by the exact generator
    quiet_loading()
    domain = domain_from(args)
    data, held_out = data_sets(script, domain)

    with run_lock(args.output_dir):  # one run a folder
        # Rewards: those that `args` names. Your own: reward_funcs=[...] for the prover, any TRL reward callables, and
        # conjecturer_reward=lambda solve_rate_P, ctx: ... for the conjecturer.
        trainer = JointConjecturerProverTrainer(
            args=args,
            domain=domain,
            **data,
            **build_arguments(script, args, model),  # model, or one for each role, and peft_config
        )
        before = measure(trainer, held_out, script.eval_proposals, "before training")
        trainer.train(resume_from_checkpoint=args.resume_from_checkpoint)
        for folder in export_policies(trainer, Path(args.output_dir)):
            trainer.accelerator.print(f"Exported {folder}")
        after = measure(trainer, held_out, script.eval_proposals, "after training")

        # The table before / after, evaluation.json, plots and report.html
        if trainer.accelerator.is_main_process:
            tell(Path(args.output_dir), before, after, script.report)
        trainer.accelerator.wait_for_everyone()
        if control is not None:
            play_control(script, *control, data, held_out, before, after)
    return 0


if __name__ == "__main__":
    as_program(main)
