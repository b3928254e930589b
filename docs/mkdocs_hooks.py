"""Links of docs/ to files outside it, such as ../chart/README.md, become links to the repository on GitHub."""

import posixpath
import re

LINK = re.compile(r"(\]\()([^)\s:#]+)((?:#[^)\s]*)?\))")


def on_page_markdown(markdown, page, config, **_):
    folder = posixpath.dirname(posixpath.join("docs", page.file.src_uri))

    def rewrite(link):
        before, target, after = link.groups()
        path = posixpath.normpath(posixpath.join(folder, target))
        if path.startswith("docs/"):
            return link.group(0)
        return f"{before}{config.repo_url.rstrip('/')}/blob/main/{path}{after}"

    return LINK.sub(rewrite, markdown)
