"""The frame of an HTML report: its style, and the policy that nothing is loaded or run."""

import html

_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; }
th, td { padding: .25rem .75rem; border-bottom: 1px solid #8886; text-align: left; }
td { font-variant-numeric: tabular-nums; }
details { border-bottom: 1px solid #8886; padding: .25rem 0; }
summary { cursor: pointer; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: 0 0 .5rem; }
dt { font-weight: 600; }
dd { margin: 0; }
.good::before { content: "\\2713  "; color: #1a7f37; }
.bad::before { content: "\\2717  "; color: #cf222e; }
.gate { font-weight: 700; }
"""
# A report shows what agents said: nothing of it may load, run or lead anywhere.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def page(title: str, body: str) -> str:
    """Return an HTML document.

    Args:
        title: As text.
        body: As HTML; whatever is not ours in it has been escaped.
    """
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )
