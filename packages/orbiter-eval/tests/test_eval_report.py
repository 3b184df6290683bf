from html.parser import HTMLParser

from orbiter.eval import (
    Case,
    Evaluator,
    ExactMatch,
    check,
    compare,
    html_report,
    markdown_report,
)

NASTY = '<script>alert("x")</script> | `code` *bold* [link](javascript:1)\n<img src=//evil>'


async def evaluated(answer, name="agent"):
    async def target(case):
        if case.id == "fails":
            raise ValueError(answer)
        return answer

    cases = [
        Case(id="fails", input="?", expected="x"),
        Case(id='<b id="i">', input=NASTY, expected=NASTY + "!"),
        Case(id="good", input="?", expected=answer),
    ]
    return await Evaluator(target, [ExactMatch()], name=name).run(cases)


class Page(HTMLParser):
    """Collects a page's tags, what they may load, and its text."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.texts = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]

    def handle_data(self, data):
        self.texts.append(data)


async def test_the_html_report_shows_everything_as_text_and_loads_nothing():
    result = await evaluated(NASTY, name="<i>agent</i>")
    text = html_report(result, gate=check(result, ["exact>=0.9"]))
    page = Page(text)
    assert not {"script", "img", "a", "link", "iframe", "b", "i", "form"} & set(page.tags)
    assert not {"src", "href", "onclick", "onerror"} & set(page.attributes)
    shown = "".join(page.texts)
    assert NASTY in shown
    assert '<b id="i">' in shown
    assert "not passed" in shown
    assert "default-src 'none'" in text


async def test_the_html_report_begins_with_the_worst():
    text = html_report(await evaluated("x"))
    assert text.index(">fails<") < text.index(">good<")
    assert "ValueError: x" in text


async def test_the_markdown_report_keeps_its_tables_whatever_was_said():
    result = await evaluated(NASTY)
    text = markdown_report(result, gate=check(result, ["exact>=0.9"]))
    assert "**not passed**" in text
    assert "<script>" not in text.replace("\\<", "")
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert {line.replace("\\|", "").count("|") for line in rows} == {6, 4}
    assert "| exact | 0.333 |" in text


async def test_both_reports_tell_of_the_comparison():
    old, new = await evaluated("old", name="v1"), await evaluated("new", name="v2")
    comparison = compare(old, new)
    for text in (
        markdown_report(new, comparison=comparison),
        html_report(new, comparison=comparison),
    ):
        assert "Compared with v1" in text
        assert "within noise" in text


async def test_a_report_of_one_result_is_always_the_same():
    result = await evaluated("x")
    assert html_report(result) == html_report(result)
    assert markdown_report(result) == markdown_report(result)
