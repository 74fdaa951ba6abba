#!/bin/sh
# Folders, secrets and params.yaml for compose.yaml, owned by whoever runs this; what is there already stays.
set -eu
cd "$(dirname "$0")"
[ "$(id -u)" -ne 0 ] || { echo "run this as the user that the containers shall be, not as root" >&2; exit 1; }
umask 077
mkdir -p data/traube/home data/traube/raw data/traube/cards data/traube/checkpoints data/traube/inbox data/postgres data/s3 secrets

[ -e data/traube/params.yaml ] || cp ../params.yaml data/traube/params.yaml

made() { [ -s "secrets/$1" ] || head -c 24 /dev/urandom | od -An -tx1 | tr -d ' \n' > "secrets/$1"; }
made postgres_password
made s3_user
made s3_password
made ray_token
printf 'postgres:5432:*:traube:%s\n' "$(cat secrets/postgres_password)" > secrets/pgpass
printf '[default]\naws_access_key_id = %s\naws_secret_access_key = %s\n' \
  "$(cat secrets/s3_user)" "$(cat secrets/s3_password)" > secrets/s3_credentials
printf 'TRAUBE_UID=%s\nTRAUBE_GID=%s\n' "$(id -u)" "$(id -g)" > .env
