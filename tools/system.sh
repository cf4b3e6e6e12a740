#!/bin/sh
# Finds bubblewrap (the grader's sandbox, Linux only) and Chromium (the book's browser tests).
# Installs what is missing where that is safe: as root, on Debian or Ubuntu.
set -eu

has() { command -v "$1" >/dev/null 2>&1; }

has_browser() {
    has chromium || has chromium-browser || has google-chrome ||
        [ -x "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome" ] ||
        [ -x "/Applications/Chromium.app/Contents/MacOS/Chromium" ]
}

missing=""
[ "$(uname)" != Linux ] || has bwrap || missing="bubblewrap"
has_browser || missing="${missing:+$missing }chromium"
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ] && has apt-get; then
    echo "Installing $missing with apt."
    export DEBIAN_FRONTEND=noninteractive
    # A slim image has no font at all, and a page without one shows nothing.
    # shellcheck disable=SC2086
    if apt-get update -qq >/dev/null &&
        apt-get install -qq -y --no-install-recommends $missing fonts-liberation >/dev/null; then
        exit 0
    fi
fi
echo "Please install $(echo "$missing" | sed 's/ / and /') with your system's package manager, then run make again." >&2
exit 1
