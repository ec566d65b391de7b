#!/usr/bin/env bash
# ci/html.sh [PROGRAM]: the HTML report in a real browser: no error or warning on the console, the text is there, the
# picture is not blank, search, sorting and the switches of the map work by keyboard alone, nothing is fetched. Without
# a Chromium it says that it did not look, and ends 0: the tests of the page's text are in tests/test_html.c.
set -euo pipefail
cd "$(dirname "$0")/.."
assay=${1:-build/release/bin/assay}
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
if [ -z "$browser" ]; then
  echo "html: not looked at: no chromium"
  exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "html: FAIL: $*" >&2; exit 1; }
browse() { # OPTIONS... PAGE: what the page logged is in $work/log
  timeout 120 "$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$work/profile" \
    --enable-logging=stderr --v=0 --virtual-time-budget=4000 --window-size=1200,2400 "$@" 2> "$work/log"
  if grep -q CONSOLE "$work/log"; then fail "console: $(grep CONSOLE "$work/log" | head -3)"; fi
}
# Appended to a copy of the page: plays the keyboard, and writes what came of it into the title.
play='<script>
addEventListener("load", () => {
  const said = [], table = [...document.querySelectorAll("table.tool")].pop(), rows = [...table.tBodies[0].rows];
  const want = (name, holds) => { if (!holds) said.push(name); };
  const input = table.parentNode.previousElementSibling.querySelector("input");
  input.focus();
  want("focus", document.activeElement === input);
  input.value = "logits"; input.dispatchEvent(new Event("input"));
  want("search", rows.filter(row => !row.hidden).length === 1);
  input.value = ""; input.dispatchEvent(new Event("input"));
  want("search emptied", rows.every(row => !row.hidden));
  const head = [...table.tHead.rows[0].cells].find(cell => cell.textContent === "rel RMS");
  const button = head.querySelector("button"), at = [...head.parentNode.cells].indexOf(head);
  button.focus();
  want("focus of a head", document.activeElement === button);
  for (const order of ["ascending", "descending"]) {
    button.click();
    want(order, head.getAttribute("aria-sort") === order);
    const values = [...table.tBodies[0].rows].map(row => Number(row.cells[at].textContent));
    want(order + " order", values.every((v, i) => i === 0 || (order === "ascending" ? values[i - 1] <= v
                                                                                    : values[i - 1] >= v)));
  }
  const box = document.querySelector(".map input"), line = document.querySelector(".map .g0");
  want("grid shown", getComputedStyle(line).display !== "none");
  box.focus(); box.click();
  want("grid hidden", getComputedStyle(line).display === "none");
  want("nothing fetched", performance.getEntriesByType("resource").length === 0);
  document.title = said.length ? "PLAYED WRONG: " + said.join(", ") : "PLAYED WELL";
});
</script>'
for result in fixtures/reports/*.json; do
  name=$(basename "$result" .json)
  "$assay" report "$result" --as html --out "$work/$name.html"
  browse --dump-dom "file://$work/$name.html" > "$work/$name.dom"
  grep -q '</main>' "$work/$name.dom" || fail "$name: no page"
done
grep -q 'int4.nibble_swap' "$work/diff.dom" || fail "diff: the bug's name is not there"
sed '/^<script>$/,$d' "$work/diff.html" > "$work/still.html"
browse --dump-dom "file://$work/still.html" > "$work/still.dom"
for text in 'int4.nibble_swap' 'Router flips' 'Error by layer' 'layers.1.mlp'; do
  grep -q "$text" "$work/still.dom" || fail "without script: no \"$text\""
done
{ cat "$work/diff.html"; echo "$play"; } > "$work/play.html"
browse --dump-dom "file://$work/play.html" > "$work/play.dom"
grep -q '<title>PLAYED WELL</title>' "$work/play.dom" || fail "$(grep -o -m 1 'PLAYED WRONG: [^<]*' "$work/play.dom" || echo "the script did not run")"
for scheme in light dark; do
  dark=$([ "$scheme" = dark ] && echo --blink-settings=preferredColorScheme=0 || echo --blink-settings=preferredColorScheme=1)
  browse "$dark" --screenshot="$work/$scheme.png" "file://$work/diff.html"
  # A blank picture of this size packs to a few kB.
  [ "$(stat -c %s "$work/$scheme.png")" -gt 40000 ] || fail "$scheme: the picture is blank"
done
if cmp -s "$work/light.png" "$work/dark.png"; then fail "light and dark are the same picture"; fi
if [ -n "${ASSAY_HTML_KEEP:-}" ]; then cp "$work"/*.png "$work/diff.html" "$ASSAY_HTML_KEEP"; fi
echo "html: $(ls fixtures/reports/*.json | wc -l) pages looked at with $("$browser" --version 2>/dev/null | head -1)"
