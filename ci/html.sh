#!/usr/bin/env bash
# ci/html.sh [PROGRAM]: the HTML report in a real browser: no error or warning on the console, the text is there,
# the picture is not blank, search, sorting and the switches of the map work by keyboard alone, nothing is fetched; the
# page of a model of 61 layers is small, and says how long it took to open. Without a Chromium it says that it did not
# look, and ends 0: the tests of the page's text are in tests/test_html.c.
set -euo pipefail
cd "$(dirname "$0")/.."
assay=${1:-build/release/bin/assay}
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
if [ -z "$browser" ]; then
  echo "html: not looked at: no chromium (ci/deps.sh --browser installs it)"
  exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "html: FAIL: $*" >&2; exit 1; }
budget=--virtual-time-budget=4000
browse() { # OPTIONS... PAGE: what the page logged is in $work/log
  timeout 120 "$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$work/profile" \
    --enable-logging=stderr --v=0 ${budget:+"$budget"} --window-size=1200,2400 "$@" 2> "$work/log"
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
# Two profiles of a model of 61 layers, every tap of them red: the largest page there is.
sed 's/"num_hidden_layers": 6,/"num_hidden_layers": 61,/' fixtures/tiny-k25/config.json > "$work/config.json"
tokens=$(seq -s, 1 64)
for profile in sgl math; do
  "$assay" forward "synth:$work/config.json?seed=1" --tokens "$tokens" --profile $profile --out "$work/$profile.safetensors" > "$work/forward.log"
done
status=0
"$assay" diff "$work/sgl.safetensors" "$work/math.safetensors" --bound 1e-9 --report html="$work/deep.html" > "$work/deep.log" || status=$?
[ "$status" -eq 1 ] || fail "61 layers: the comparison ended with $status"
size=$(stat -c %s "$work/deep.html")
[ "$size" -le 5000000 ] || fail "61 layers: $size bytes, at most 5,000,000"
{ cat "$work/deep.html"; echo '<script>addEventListener("load", () => { document.title = "OPENED " + performance.now().toFixed(0); });</script>'; } > "$work/opened.html"
budget='' browse --dump-dom "file://$work/opened.html" > "$work/opened.dom" # on the clock of the wall
grep -q 'layers.60.output' "$work/opened.dom" || fail "61 layers: the last one is not there"
opened=$(sed -n 's/.*<title>OPENED \([0-9]*\)<.*/\1/p' "$work/opened.dom")
[ -n "$opened" ] || fail "61 layers: the page did not load"
echo "html: 61 layers, $(grep -c . "$work/deep.html") lines, $size bytes, opened in $opened ms"
if [ -n "${ASSAY_HTML_KEEP:-}" ]; then cp "$work"/*.png "$work/diff.html" "$ASSAY_HTML_KEEP"; fi
echo "html: $(ls fixtures/reports/*.json | wc -l) pages looked at with $("$browser" --version 2>/dev/null | head -1)"
