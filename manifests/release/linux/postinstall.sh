#!/bin/sh
# Nothing starts by itself: a new installation has no configuration.
set -e
[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload
if ! systemctl is-active -q penstock; then
  echo "write /etc/penstock/config/*.yaml, then: systemctl enable --now penstock"
  exit 0
fi
# In place, without a failed request. If the former program, whose file is deleted, still runs after a minute: a restart.
systemctl reload penstock || true
tries=0
while systemctl is-active -q penstock; do
  pid=$(systemctl show -p MainPID penstock)
  case $(readlink "/proc/${pid#MainPID=}/exe") in
  *' (deleted)') ;;
  *) exit 0 ;;
  esac
  tries=$((tries + 1))
  if [ $tries -gt 60 ]; then
    systemctl restart penstock || echo "penstock does not start: see journalctl -u penstock" >&2
    exit 0
  fi
  sleep 1
done
