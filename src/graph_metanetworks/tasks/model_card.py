"""The model card of a run, for the Hugging Face hub: task, zoo, scores, seeds, command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from graph_metanetworks.storage.hub import LIBRARY, card, markdown_table
from graph_metanetworks.training.run_folder import Run

if TYPE_CHECKING:
    from graph_metanetworks.tasks.task import Task


def model_card(run: Run, task: Task[Any], name: str) -> str:
    """Write the card of a finished run from what its folder says."""
    assert run.result is not None
    zoo, method = run.zoo, task.options.found_method
    sizes = run.result["sizes"]
    rows = [
        (part, f"{sizes[part]:,}", *(f"{found[score.name]:.3f}" for score in task.scores))
        for part, found in run.scores.items()
    ]
    facts = {
        "task": f"{task.title} (`{task.name}`)",
        "method": f"{method.title}: {method.about}",
        "parameters": f"{run.result['parameters']:,}",
        "zoo": f"{Path(str(zoo['folder'])).name}: {zoo['networks']:,} networks, recipe `{zoo['recipe']}`",
        "setting": f"{run.options['setting']} ({', '.join(f'{n:,} {part}' for part, n in sizes.items())})",
        "seeds": f"{run.options['seed']} (run), {zoo['seed']} (zoo)",
        "version": run.version,
    }
    return card(
        {"library_name": LIBRARY, "tags": [LIBRARY, "weight-space-learning", f"task-{task.name}"]},
        f"# {name.rpartition('/')[2]}",
        f"{task.title}: a model whose inputs are neural networks, made with `{LIBRARY}`.",
        markdown_table(("", ""), facts.items()),
        "## Scores",
        markdown_table(("part", "networks", *(score.title for score in task.scores)), rows),
        "## Use",
        f"```python\nimport graph_metanetworks as gmn\n\nrunner = gmn.load({name!r})\n"
        "runner(model, example)   # one result per network\n```",
        "## Train it again",
        f"```\n{command(run, task)}\n```",
    )


def command(run: Run, task: Task[Any]) -> str:
    """Return the command that trains a run like this one: the options that are not defaults."""
    fields = task.options_class.__dataclass_fields__
    given = {
        key: value
        for key, value in run.options.items()
        if value != fields[key].default
        and not (key == "learning_rate" and value == task.options.found_method.learning_rate)
    }
    options = "".join(f" {_option(key, value)}" for key, value in given.items())
    return f"gmn train {run.task} {Path(str(run.zoo['folder'])).name} --out run{options}"


def _option(key: str, value: Any) -> str:
    name = key.replace("_", "-")
    if isinstance(value, bool):
        return f"--{name}" if value else f"--no-{name}"
    return f"--{name} {value}"
