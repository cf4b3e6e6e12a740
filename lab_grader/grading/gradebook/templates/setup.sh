#!/usr/bin/env bash
# Gradescope runs this once, as root, when it builds the image of the assignment.
set -euo pipefail
cd "${AUTOGRADER_ROOT:-/autograder}/source"
export DEBIAN_FRONTEND=noninteractive
apt-get update
apt-get install -y bubblewrap
for version in 3.13 3.12 3.11; do
    if apt-get install -y "python$version" "python$version-venv"; then break; fi
done
"python$version" -m venv .venv
# torch first, in its small build; the rest finds it installed.
.venv/bin/pip install --index-url https://download.pytorch.org/whl/cpu "$(grep '^torch==' requirements.txt)"
.venv/bin/pip install --constraint requirements.txt ./lab_transformer-*.whl
# Learners' code never runs as root.
useradd --create-home grader
