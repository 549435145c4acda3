#!/usr/bin/env bash
# Does the work of action.yml: explains the runs in RUNS that match QUERY, at most LIMIT. Writes GITHUB_STEP_SUMMARY,
# GITHUB_OUTPUT, and a page for each run into PAGES. With REDACT=true, secrets are blanked on the pages.
set -euo pipefail
mkdir -p "$PAGES"
list=$(board list "$RUNS" "$QUERY" --json)
printf '%s' "$list" | python3 -c 'import json, sys; print("failed=%d" % json.load(sys.stdin)["matched"])' >>"$GITHUB_OUTPUT"
# One path per line. A run whose path contains a line break is only counted.
printf '%s' "$list" | python3 -c '
import json, sys
runs = json.load(sys.stdin)
print("# Why runs stopped\n\n%d of %d runs\n" % (runs["matched"], runs["total"]), file=sys.stderr)
for run in runs["runs"][: int(sys.argv[1])]:
    if "\n" not in run["path"]:
        print(run["path"])
' "$LIMIT" 2>>"$GITHUB_STEP_SUMMARY" >"$PAGES/.list"
number=0
while IFS= read -r path; do
    number=$((number + 1))
    {
        printf '<details><summary><code>%s</code></summary>\n\n' "$(printf '%s' "$path" | sed 's/&/\&amp;/g; s/</\&lt;/g')"
        # Indented, so that text from a trace isn't read as markup. A run that can't be read doesn't hide the others.
        board why -- "$path" 2>&1 | sed 's/^/    /' || true
        printf '\n</details>\n\n'
    } >>"$GITHUB_STEP_SUMMARY"
    options=()
    [ "$REDACT" != true ] || options+=(--redact)
    board export "${options[@]}" --html "$PAGES/run-$number.html" -- "$path" ||
        printf '    its page could not be written\n\n' >>"$GITHUB_STEP_SUMMARY"
done <"$PAGES/.list"
rm "$PAGES/.list"
