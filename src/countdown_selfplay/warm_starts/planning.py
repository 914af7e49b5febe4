"""Dry runs of the warm starts and of iterated play. The memory is that of whole weights while models sample, and of an
engine's share while one model trains."""

from collections.abc import Iterator
from typing import Any

from trl import get_peft_config

from ..chat_templates import prompt_ids, ready
from ..cli.launch import planned
from ..domains import longest_problem
from ..errors import CountdownSelfPlayError, PromptError
from ..planning.dry_run import UNKNOWN_PROMPT, print_warm_start, unreadable
from ..planning.memory import Launch, Parts, kv_cache, launch_of, memory_table, parameters_of, state
from ..policies.adapters import config_of
from ..policies.build import read_tokenizer
from ..tiny import resolve_model

TURNS = 3
"""Largest number of texts in a row of iterated play besides the question: an answer, a critique and the revision."""


def iterated_lines(settings: Any, domain: Any, options: Any, launch: Launch) -> Iterator[str]:
    """Yield lines on the memory of `cdg --training iterated`, whose play and retraining alternate, with texts of full
    length. With vLLM, which reserves its share, the models wait in main memory."""
    yield f"\n# Memory per process in GiB ({launch.sentence})"
    path = resolve_model(options.model_name_or_path)
    try:
        config, question = config_of(path), question_tokens(path, domain, settings.chat_template_kwargs)
    except (OSError, ValueError) as error:
        yield unreadable(path, error)
        return
    whole, _ = parameters_of(config)
    size, models = 4 if launch.device == "cpu" else 2, len(settings.kinds)
    play: Parts = {}
    if settings.generation_backend == "generate":
        tokens = question + TURNS * settings.max_completion_length
        play = kv_cache(config, [("a role", settings.per_device_eval_batch_size, tokens)], size)
        words = f"{models} x {whole / 1e6:.1f}M x {size} bytes, whole"
        play["weights, sampling"] = (float(models * whole * size), words)
    lasting, gradients = state(launch, whole, whole)
    yield memory_table({}, play, {**lasting, **gradients})


def print_plan(
    script: Any, args: Any, options: Any, data: str, rows: int, launch_options: dict[str, str] | None
) -> None:
    """Print the dry run of `sft` or `ipo`: settings, data, steps and memory without sampled texts. data: a sentence.
    rows: largest number of trained rows. launch_options: of a launch to plan for; None: this process's."""
    launch = launch_of(args) if launch_options is None else planned(launch_options)
    lines = [*_batches(args, data, rows, launch.processes), f"\n# Memory per process in GiB ({launch.sentence})"]
    path = resolve_model(options.model_name_or_path)
    try:
        config = config_of(path)
    except (OSError, ValueError) as error:
        lines.append(unreadable(path, error))
    else:
        whole, adapted = parameters_of(config, get_peft_config(options))
        lasting, gradients = state(launch, whole + adapted, adapted or whole)
        lines.append(memory_table(lasting, {}, gradients))
    print_warm_start(script, args, options, lines)


def _batches(args: Any, data: str, rows: int, processes: int) -> Iterator[str]:
    yield f"\n# Data\n{data}\n\n# Batches"
    batch = args.per_device_train_batch_size * args.gradient_accumulation_steps * processes
    yield (
        f"optimizer step: {args.per_device_train_batch_size} x {args.gradient_accumulation_steps} accumulated x "
        f"{processes} process(es) = {batch} rows"
    )
    if args.max_steps > 0:
        yield f"steps: {args.max_steps} (max_steps)"
    else:
        per_epoch = max(1, -(-rows // batch))
        total = int(per_epoch * args.num_train_epochs)
        yield f"steps: {per_epoch} an epoch x {args.num_train_epochs:g} epochs = at most {total}"


def question_tokens(path: str, domain: Any, kwargs: Any = None) -> int:
    """Return the number of tokens of one of a prover's longest prompts."""
    tokenizer: Any = read_tokenizer(path)
    try:
        prompt = domain.prove_row(longest_problem(domain))["prompt"]
        return len(prompt_ids(ready(tokenizer, [prompt], kwargs), prompt))
    except PromptError:
        raise
    except CountdownSelfPlayError:  # without its data set a domain may make no problem
        return UNKNOWN_PROMPT
