#!/usr/bin/env bash
# What action.yml runs. Inputs come as H2DLINT_*, see there; outputs go to $GITHUB_OUTPUT. It needs nothing of GitHub's,
# so that other services, and the tests, can call it too.
set -euo pipefail

readonly MARK="Made-by: h2dlint --fix"  # how a commit of ours is known again

say() { echo "h2dlint: $*" >&2; }

stop() {
  say "$*"
  exit 2
}

output() { echo "$1=$2" >>"${GITHUB_OUTPUT:-/dev/null}"; }

# Puts the words of a text into the array `words`. Nothing in them is expanded.
split() {
  words=()
  local line
  while IFS= read -r line || [ -n "$line" ]; do
    local more=()
    read -ra more <<<"$line"
    words+=(${more[@]+"${more[@]}"})
  done <<<"$1"
}

install() {
  local home="${RUNNER_TEMP:-${TMPDIR:-/tmp}}/h2dlint-venv"
  local source="${GITHUB_ACTION_PATH:-$(dirname "$0")/..}"
  if [ ! -x "$home/bin/h2dlint" ]; then
    "${H2DLINT_PYTHON:-python3}" -m venv "$home"
    "$home/bin/python" -m pip install --quiet --disable-pip-version-check "$source" >&2
  fi
  h2dlint="$home/bin/h2dlint"
}

# Runs `h2dlint check` and remembers in `status` whether it found something; any other failure ends the script.
check() {
  status=0
  "$h2dlint" check ${options[@]+"${options[@]}"} "$@" "${paths[@]}" || status=$?
  [ "$status" -le 1 ] || exit "$status"
  if [ "$status" -eq 1 ]; then output findings true; else output findings false; fi
}

annotate() { check --output-format github; }

sarif() {
  local file="${H2DLINT_SARIF_FILE:-h2dlint.sarif}"
  check --output-format sarif --output-file "$file"
  output sarif-file "$file"
}

fix() {
  local summary="${H2DLINT_SUMMARY_FILE:-}"
  [ -n "$summary" ] || summary="$(mktemp "${RUNNER_TEMP:-${TMPDIR:-/tmp}}/h2dlint-summary.XXXXXX")"
  git diff --quiet HEAD -- || stop "the working tree has changes of its own: commit them before, or run this step first"
  check --fix --summary-file "$summary"
  output summary-file "$summary"
  if [ -n "${GITHUB_STEP_SUMMARY:-}" ]; then cat "$summary" >>"$GITHUB_STEP_SUMMARY"; fi
  if git diff --quiet HEAD --; then
    output changed false
    output pushed false
    return
  fi
  output changed true
  if [ -n "${H2DLINT_BRANCH:-}" ]; then push "$H2DLINT_BRANCH"; else output pushed false; fi
}

# Puts the changes of tracked files into one commit on top of HEAD and makes it the branch of that name. The checkout
# stays as it is: its branch, and the changes in its working tree.
push() {
  local branch="$1" tip="" tree commit
  git check-ref-format "refs/heads/$branch" || stop "\`$branch\` is no name for a branch"
  tip="$(git ls-remote origin "refs/heads/$branch" | cut -f1)"
  if [ -n "$tip" ]; then
    local depth=()
    if [ "$(git rev-parse --is-shallow-repository)" = true ]; then depth=(--depth=1); fi
    git fetch --quiet ${depth[@]+"${depth[@]}"} origin "refs/heads/$branch"
    # A commit that is not ours is somebody's work.
    git log -1 --format=%B "$tip" | grep -qxF "$MARK" ||
      stop "the branch \`$branch\` has a commit that is not h2dlint's: merge it, or delete it, or name another branch"
  fi
  git add --update
  tree="$(git write-tree)"
  git reset --quiet
  if [ -n "$tip" ] && same "$tip" "$tree"; then
    say "the branch \`$branch\` holds these changes already"
    output pushed false
    return
  fi
  commit="$(
    printf '%s\n\n%s\n' "${H2DLINT_COMMIT_MESSAGE:-Make host/device copies really asynchronous}" "$MARK" |
      git -c user.name="${H2DLINT_COMMIT_NAME:-github-actions[bot]}" \
        -c user.email="${H2DLINT_COMMIT_EMAIL:-41898282+github-actions[bot]@users.noreply.github.com}" \
        commit-tree "$tree" -p HEAD
  )"
  git push --quiet --force-with-lease="refs/heads/$branch:$tip" origin "$commit:refs/heads/$branch"
  say "pushed the changes to \`$branch\`"
  output pushed true
}

# Whether the commit $1 has the tree $2 and stands on HEAD.
same() {
  [ "$(git rev-parse "$1^{tree}")" = "$2" ] &&
    git cat-file -p "$1" | grep -qx "parent $(git rev-parse HEAD)"
}

mode="${H2DLINT_MODE:-annotate}"
case "$mode" in
  annotate) fails=true ;;
  sarif | fix) fails=false ;;
  *) stop "no mode \`$mode\`: it is annotate, sarif or fix" ;;
esac
fails="${H2DLINT_FAIL:-$fails}"
case "$fails" in true | false) ;; *) stop "\`fail\` is true or false, not \`$fails\`" ;; esac

split "${H2DLINT_PATHS:-.}"
paths=("${words[@]}")
split "${H2DLINT_OPTIONS:-}"
options=(${words[@]+"${words[@]}"})

h2dlint="${H2DLINT_COMMAND:-}"
[ -n "$h2dlint" ] || install
"$mode"
if [ "$fails" = true ]; then exit "$status"; fi
