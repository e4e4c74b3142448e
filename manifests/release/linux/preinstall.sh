#!/bin/sh
# Makes the user of penstock.service, where systemd-sysusers does not.
set -e
getent group penstock >/dev/null || groupadd --system penstock
getent passwd penstock >/dev/null ||
  useradd --system --gid penstock --home-dir /var/lib/penstock --shell /usr/sbin/nologin penstock
