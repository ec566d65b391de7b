#!/usr/bin/env bash
# What a token of the absorbed decode costs as the context grows, on mid-k25: 8 tokens after prompts of several lengths.
# The formula: every layer reads W_kvb and all other weights once (constant), and multiplies each cached entry of width
# L + R into the scores and of width L into the values, for every head: layers * heads * (2 L + R) products a cached
# token. So seconds = a + b * context; prints the fit, b per product, and the largest deviation from the line; writes
# reports/measured/decode.{json,svg} or the folder given.
set -Eeuo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
assay=${ASSAY:-build/release/bin/assay}
out=${1:-reports/measured}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"
"$assay" synth fixtures/mid-k25/config.json --seed 19 --out "$work/mid" > /dev/null

for n in 256 512 1024 1536 2048 2560 3072; do
    seq 1 "$n" | awk '{ printf "%s%d", (NR > 1 ? "," : "["), ($1 * 7919) % 1024 } END { print "]" }' > "$work/tokens.json"
    "$assay" generate "$work/mid" --tokens "$work/tokens.json" -n 10 --json > "$work/result.json"
    # The median of nine steps; the context grows by nine over them, which is nothing beside n.
    awk -v n="$n" '/"token_seconds"/ { on = 1; next } on && /]/ { exit } on { gsub(/[ ,]/, ""); print n, $0 }' \
        "$work/result.json" | sort -k2 -g | awk '{ v[NR] = $0 } END { print v[int((NR + 1) / 2)] }' >> "$work/points"
done

awk -v cpu="$(sed -n 's/^model name.*: //p;/^model name/q' /proc/cpuinfo)" -v commit="$(git rev-parse --short HEAD)" \
    -v date="$(date -u +%F)" -v json="$out/decode.json" -v svg="$out/decode.svg" '
{ x[NR] = $1; y[NR] = $2; sx += $1; sy += $2; sxx += $1 * $1; sxy += $1 * $2 }
END {
    b = (NR * sxy - sx * sy) / (NR * sxx - sx * sx); a = (sy - b * sx) / NR
    products = 4 * 16 * (2 * 512 + 64)
    for (i = 1; i <= NR; i++) {
        e = (y[i] - a - b * x[i]) / y[i]; if (e < 0) e = -e; if (e > worst) worst = e
        printf "context %5d  %.4f s a token, line %.4f\n", x[i], y[i], a + b * x[i]
        points = points sprintf("%s[%d, %.6f]", (i > 1 ? ", " : ""), x[i], y[i])
        if (y[i] > top) top = y[i]
    }
    printf "seconds = %.4f + %.3g * context; %.3g products a second; largest deviation %.1f %%\n", a, b, products / b, 100 * worst
    printf "{\"what\": \"absorbed decode, mid-k25, f32\", \"command\": \"ci/bench_decode.sh\", \"date\": \"%s\", \"commit\": \"%s\", \"device\": \"%s\", \"points\": [%s], \"constant\": %.6g, \"slope\": %.6g, \"products_a_token\": %d, \"largest_deviation\": %.4f}\n", date, commit, cpu, points, a, b, products, worst > json
    w = 640; h = 360; m = 56; last = x[NR]; top *= 1.1
    printf "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n", w, h > svg
    printf "<path d=\"M%d %d V%d H%d\" fill=\"none\" stroke=\"black\"/>\n", m, 16, h - m, w - 16 > svg
    printf "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"steelblue\"/>\n", m, h - m - a / top * (h - m - 16), w - 16, h - m - (a + b * last) / top * (h - m - 16) > svg
    for (i = 1; i <= NR; i++) {
        px = m + x[i] / last * (w - m - 16); py = h - m - y[i] / top * (h - m - 16)
        printf "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\"/><text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%d</text>\n", px, py, px, h - m + 18, x[i] > svg
    }
    printf "<text x=\"%d\" y=\"%d\">cached tokens</text><text x=\"8\" y=\"12\">seconds a token (0 to %.3f): %.4f + %.3g n</text>\n</svg>\n", w / 2, h - 12, top, a, b > svg
}' "$work/points"
