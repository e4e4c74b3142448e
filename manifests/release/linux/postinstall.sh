#!/bin/sh
# Nothing starts by itself: a new installation has no configuration.
set -e
[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload
if systemctl is-active -q penstock; then systemctl restart penstock; else
  echo "write /etc/penstock/config/*.yaml, then: systemctl enable --now penstock"
fi
