#!/bin/sh
# $1 is remove (deb) or 0 (rpm) where the package goes; an upgrade leaves the service running.
set -e
case ${1:-} in remove | 0) [ ! -d /run/systemd/system ] || systemctl disable --now penstock || true ;; esac
