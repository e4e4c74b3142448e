#!/bin/sh
# Nothing starts by itself: a new installation has no configuration.
set -e
[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload
if systemctl is-active -q penstock; then
  # In place, without a failed request. Where the new program does not run after a minute, a restart.
  systemctl reload penstock || true
  tries=0
  until [ "$(readlink "/proc/$(systemctl show -P MainPID penstock)/exe")" = /usr/bin/penstock ]; do
    tries=$((tries + 1))
    if [ $tries -gt 60 ]; then systemctl restart penstock; break; fi
    sleep 1
  done
else
  echo "write /etc/penstock/config/*.yaml, then: systemctl enable --now penstock"
fi
