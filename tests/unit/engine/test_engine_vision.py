"""The engine ``vision`` on a tiny random image-text model."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from engine_support import Recorder, engine_settings, run_all, task

from pipeline.engine.vision import VisionEngine
from pipeline.engine.vision_images import read_images, views
from pipeline.engine.vision_model import VisionModel, load_vision_model
from pipeline.errors import BadImageError, ModelLoadError
from pipeline.events import FinishReason, InferenceRequest, Kind, Message
from pipeline.scheduling.modes import VISION_PATHS, messages_on, path_of, profile_of
from pipeline.settings import load_settings
from tests.tiny_vision import build_tiny_vision, picture


@pytest.fixture(scope="module")
def tiny_vision(tmp_path_factory: pytest.TempPathFactory) -> VisionModel:
    torch.set_num_threads(1)
    folder = build_tiny_vision(Path(tmp_path_factory.mktemp("vision")) / "tiny")
    return load_vision_model(load_settings(model=str(folder), engine={"context": 256}))


@contextmanager
def seeing(model: VisionModel, **engine: Any):
    recorder = Recorder()
    vision = VisionEngine(engine_settings(**engine), load=lambda _: model)
    vision.start(recorder)
    try:
        yield vision, recorder
    finally:
        vision.close()


def look(name: str, *images: bytes, path: str = "whole", **params: Any):
    return replace(task(name, **params), images=images, path=path)


def test_greedy_is_that_of_generate_and_depends_on_the_image(tiny_vision):
    with seeing(tiny_vision) as (engine, recorder):
        red, blue, blind = run_all(
            engine,
            recorder,
            [
                look("red", picture("red"), temperature=0, max_new_tokens=8),
                look("blue", picture("blue"), temperature=0, max_new_tokens=8),
                look("blind", temperature=0, max_new_tokens=8),
            ],
        )
    model, tokenizer = tiny_vision.loaded.model, tiny_vision.loaded.tokenizer
    inputs = tiny_vision.inputs([Message("user", "hello")], read_images([picture("red")], None))
    ids = model.generate(**inputs, do_sample=False, max_new_tokens=8)[0, inputs["input_ids"].shape[1] :]
    assert red.text == tokenizer.decode(ids, skip_special_tokens=True).rstrip("\ufffd")
    assert red.text != blue.text and recorder.streamed(red.key) == red.text
    assert red.prompt_tokens == blind.prompt_tokens + 4
    assert red.mean_logprob is not None


def test_the_same_seed_gives_the_same_tokens_whatever_waits_beside_it(tiny_vision):
    one = look("one", picture(), temperature=1.0, seed=7, max_new_tokens=12)
    others = [look(f"o{i}", picture("blue"), temperature=1.0, max_new_tokens=12) for i in range(3)]
    with seeing(tiny_vision) as (engine, recorder):
        alone = run_all(engine, recorder, [one])[0]
    with seeing(tiny_vision) as (engine, recorder):
        *unseeded, among = run_all(engine, recorder, [*others, one])
    assert among.text == alone.text
    assert len({each.text for each in unseeded}) == 3


def test_each_path_shows_more_of_the_image(tiny_vision):
    image = picture("red", corner="blue")
    with seeing(tiny_vision) as (engine, recorder):
        done = run_all(
            engine,
            recorder,
            [look(path, image, path=path, temperature=0, max_new_tokens=2) for path in VISION_PATHS],
        )
    first = done[0].prompt_tokens
    assert [one.prompt_tokens - first for one in done] == [0, 4, 16]


def test_bad_images_fail_alone(tiny_vision, tmp_path):
    folder = tmp_path / "images"
    folder.mkdir()
    (folder / "a.png").write_bytes(picture())
    (tmp_path / "secret.png").write_bytes(picture())
    (folder / "link.png").symlink_to(tmp_path / "secret.png")
    bad = [
        b"",
        b"\x89PNG",
        b"GIF89a",
        picture()[:60],
        b"file:../secret.png",
        b"file:link.png",
        b"file:/etc/passwd",
    ]
    bad += [b"file:", b"file:none.png", b"file:\xff\x00"]
    with seeing(tiny_vision, image_folder=folder) as (engine, recorder):
        done = run_all(
            engine,
            recorder,
            [
                *(look(f"bad{i}", data, max_new_tokens=2) for i, data in enumerate(bad)),
                look("good", b"file:a.png", max_new_tokens=2),
                look("empty", picture(), prompt=" "),
                look("long", *[picture()] * 60),
            ],
        )
    assert [one.error and one.error.code for one in done] == [
        *["bad_image"] * len(bad),
        None,
        "empty_prompt",
        "prompt_too_long",
    ]
    assert all(one.error and "images[0]" in one.error.message for one in done[: len(bad)])


def test_without_a_folder_no_file_is_read():
    with pytest.raises(BadImageError, match="IMAGE_FOLDER"):
        read_images([b"file:a.png"], None)


def test_quarters_and_centre_are_where_they_should_be():
    [image] = read_images([picture("red", corner="blue")], None)
    _, *quarters = views("whole_and_quarters", [image])
    assert [quarter.getpixel((8, 8)) for quarter in quarters] == [(255, 0, 0)] * 3 + [(0, 0, 255)]
    whole, centre = views("whole_and_centre", [image])
    assert (whole.size, centre.size) == ((32, 32), (16, 16))
    [dot] = read_images([picture(side=1)], None)
    assert [len(views(path, [dot])) for path in VISION_PATHS] == [1, 2, 1]


def test_samples_of_kind_vision_take_the_paths_in_turn_with_the_same_words():
    request = InferenceRequest("r", "What is it?", kind=Kind.VISION, images=(picture(),))
    profile = profile_of(request)
    assert tuple(path_of(profile, index) for index in range(3)) == VISION_PATHS
    assert {messages_on(path, request) for path in VISION_PATHS} == {(Message("user", "What is it?"),)}


def test_cancel_and_close_end_what_runs_and_what_waits(tiny_vision):
    endless = replace(tiny_vision, loaded=replace(tiny_vision.loaded, eos_ids=frozenset(), context=100_000))
    tasks = [look(str(i), max_new_tokens=900) for i in range(3)]
    with seeing(endless) as (engine, recorder):
        assert engine.capacity() == 1
        for each in tasks:
            assert engine.submit(each) and not engine.submit(each)
        engine.cancel(tasks[0].key)
        engine.cancel(tasks[2].key)
        recorder.wait_done(2)
        recorder.wait_tokens(tasks[1].key)
    ends = {one.key: one.finish_reason for one in recorder.completions}
    assert len(recorder.completions) == 3
    assert ends[tasks[2].key] is FinishReason.CANCELLED


def test_a_model_must_be_named_and_read_images(tmp_path):
    with pytest.raises(ModelLoadError, match="TALLYSTREAM_MODEL"):
        load_vision_model(load_settings())
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    with pytest.raises(ModelLoadError, match="reads images"):
        load_vision_model(load_settings(model=str(tmp_path)))
