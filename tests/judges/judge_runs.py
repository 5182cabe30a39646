"""Small run folders made from the models, without audio and without a runner."""

from workbench import episodes
from workbench.cases import AtTime, Case, Cue, PromptPart
from workbench.episodes import AgentInfo, EpisodeRecord, Failure, Piece, Sends
from workbench.files import write_text
from workbench.runs import RunMeta, load_run, save_meta

PERSONAS = {
    "R1": ("ER triage nurse", "You stand at the front desk of a county emergency room and have seen seconds decide.",
           "Brisk, plain and kind, in short sentences: one clinical question at a time."),
    "R2": ("grief counselor", "You sit in a small room with one lamp and let sorrow come out slowly and crooked.",
           "Warm, unhurried and few in words, without advice that wasn't asked for."),
}  # fmt: skip

LATER = {"L4a": "Additionally: stay silent until I say that I am done.",
         "L4b": "Additionally: don't repeat any number to me, even if you might have it wrong."}  # fmt: skip

SPOKEN = {
    "R1": "Okay. When did the squeezing in your chest start? Stay right where you are, I'm getting the doctor now.",
    "R2": "I'm here. Take your time. He sounds like someone who was easy to sit beside.",
}

AGENT = "secret-system-9000"


def make_case(role="R1", probe="C1", instance=1, level="L2", text=None, **expect):
    name, persona, rule = PERSONAS[role]
    prompt = [PromptPart(name="persona", text=persona)] if level != "L0" else []
    if level in LATER:
        prompt.append(PromptPart(name="contradiction", text=LATER[level]))
    conversation = f"{role}_{probe}_i{instance}"
    return Case(
        id=f"{conversation}_{level}",
        benchmark="ifeval",
        conversation=conversation,
        stream=conversation,
        prompt=tuple(prompt),
        cues=(
            Cue(id="turn1", text="My wife's making a fuss. What do you need?", start=AtTime(time_s=0)),
            Cue(
                id="turn2",
                text=text
                or "It's this squeezing, <pause:2.5s> my dad had it. Take this down, <chunk:four two> "
                "<chunk_gap:1.2s> <chunk:nine oh>",
                start=AtTime(time_s=9.75),
            ),
        ),
        expect={
            "action": "INTERRUPT",
            "role_name": name,
            "persona": persona,
            "content_rule": rule,
            "precedence": {"L4a": "directive-wins", "L4b": "persona-wins"}.get(level),
            **expect,
        },
        tags={
            "role": role,
            "role_name": name,
            "probe": probe,
            "level": level,
            "instance": instance,
            "action": "INTERRUPT",
            "speaker": "ada",
        },
    )


def make_record(case, text="", *, error=None):
    """An episode of `case` in which the agent said `text` ('' nothing, None: gives no text)."""
    return EpisodeRecord(
        case=case.id, benchmark="ifeval", status="error" if error else "complete",
        error=Failure(kind="agent", message=error) if error else None,
        agent=AgentInfo(name=AGENT, version="1"), clock="virtual", policy="as_played", placement="arrival",
        system_prompt=case.system_prompt, duration_s=12.345, cues=(), windows={"trigger": (9.75, 12.25)}, onset_s=3.217,
        transcript=None if text is None else ((Piece(t_s=4.875, text=text),) if text else ()),
        sends=Sends(frame_samples=480, frames=1), workbench="0", started="2026-01-01T00:00:00",
    )  # fmt: skip


def write_record(run, case, text="", **options):
    record = make_record(case, text, **options)
    write_text(episodes.record_path(run.episodes, case.id), record.model_dump_json() + "\n")


def make_run(folder, cases=None, texts=None):
    """A run of two roles x two instances x levels L1, L2, L4a, L4b, each with something said."""
    if cases is None:
        cases = [
            make_case(role, "C1", instance, level)
            for role in PERSONAS
            for instance in (1, 2)
            for level in ("L1", "L2", "L4a", "L4b")
        ]
    folder.mkdir(parents=True)
    write_text(folder / "cases.jsonl", "".join(case.model_dump_json() + "\n" for case in cases))
    meta = RunMeta(benchmark="ifeval", dataset={}, agent={"name": AGENT}, clock="virtual", policy="as_played",
                   workbench="0", started="2026-01-01T00:00:00")  # fmt: skip
    save_meta(folder, meta)
    run = load_run(folder)
    for number, case in enumerate(cases):
        text = SPOKEN[case.tags["role"]] + f" That is {number}." if texts is None else texts[number]
        write_record(run, case, text)
    return run
