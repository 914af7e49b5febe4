"""Joint conjecturer/prover RLOO; copy it to put your own parts in.

accelerate launch examples/joint_rloo.py                        # the embedded tiny model, minutes on a laptop CPU
accelerate launch examples/joint_rloo.py --recipe tiny/ladder
accelerate launch examples/joint_rloo.py --config my.yaml --learning_rate 1e-5

Settings are those of `countdown-selfplay joint --help`: flags over the file of --config over the recipe.
"""

from trl import ModelConfig, get_peft_config

from countdown_selfplay import (
    CountdownArguments,
    DataArguments,
    JointConjecturerProverTrainer,
    JointSelfPlayConfig,
    SelfPlayParser,
    data_sets,
    summary,
)
from countdown_selfplay.domains import domain_from

if __name__ == "__main__":
    parser = SelfPlayParser(
        (DataArguments, CountdownArguments, JointSelfPlayConfig, ModelConfig), recipe="tiny/default"
    )
    data, _, args, model = parser.parse_args_and_config()
    domain = domain_from(args)
    # Your own: reward_funcs=[...] for the prover, any TRL reward callables, and for the conjecturer
    # conjecturer_reward=lambda solve_rate_P, ctx: ...; also domain, game, objectives, callbacks.
    trainer = JointConjecturerProverTrainer(
        model.model_name_or_path,
        args=args,
        peft_config=get_peft_config(model),
        domain=domain,
        **data_sets(data, domain),
    )
    trainer.evaluate()  # the first and the last one are the run's before and after
    trainer.train(resume_from_checkpoint=args.resume_from_checkpoint)
    trainer.save_model()  # <output_dir>/prover and <output_dir>/conjecturer
    trainer.evaluate()
    if trainer.accelerator.is_main_process:
        print(summary(args.output_dir))  # what is not healthy in the run, and pass@k before and after
    print(f"Report: {trainer.report()}")
