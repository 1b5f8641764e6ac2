#!/sbin/openrc-run
description="ReedClaw's procedures"
supervisor=supervise-daemon
command=/usr/bin/reedclaw
command_args='--config /home/me/project/.config.lua service run'
respawn_delay=5
respawn_max=5
respawn_period=600
retry=TERM/20/KILL/5
umask=0077
export PATH=/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin
