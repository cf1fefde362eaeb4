# Sourced by .ci/run: PostgreSQL and MariaDB for the tests. A server that answers on its usual port is used as it is; else
# one is started in a folder of its own, from Debian's packages, which are installed where they are missing. Whatever this
# script started is ended with it. Sets TIDEMARK_TEST_POSTGRES and TIDEMARK_TEST_MYSQL.

services=$(mktemp -d "${TMPDIR:-/tmp}/tidemark-services.XXXXXX")
chmod 711 "$services"
started=()

end_services() {
  for pid in "${started[@]}"; do kill "$pid" 2>/dev/null; done
  for pid in "${started[@]}"; do
    while kill -0 "$pid" 2>/dev/null; do sleep 0.1; done
  done
  rm -rf "$services"
}
trap end_services EXIT

# A query through the drivers that the tests use: what the tests need is asked, not what a client program can do.
answers() {
  node -e '
    const [kind, url] = process.argv.slice(1)
    const late = setTimeout(() => process.exit(1), 5000)
    const ask = {
      postgres: async () => { const c = new (require("pg").Client)({ connectionString: url }); await c.connect(); await c.query("select 1"); await c.end() },
      mysql: async () => { const c = await require("mysql2/promise").createConnection(url); await c.query("select 1"); await c.end() },
    }
    ask[kind]().then(() => { clearTimeout(late); process.exit(0) }, () => process.exit(1))' "$1" "$2" 2>/dev/null
}

wait_for() {
  for _ in $(seq 100); do
    answers "$1" "$2" && return 0
    sleep 0.2
  done
  return 1
}

install_debian() {
  command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ] || return 1
  echo "installing $*"
  DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@" >"$services/apt.log" 2>&1 ||
    { apt-get update -q >>"$services/apt.log" 2>&1 &&
      DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@" >>"$services/apt.log" 2>&1; } ||
    { tail -5 "$services/apt.log"; return 1; }
}

# Debian's servers refuse to run as root; elsewhere the user who runs this owns them. Replaces the shell it runs in, so that
# the id of a server in the background is its own.
as() {
  if [ "$(id -u)" = 0 ]; then exec setpriv --reuid="$1" --regid="$1" --init-groups -- "${@:2}"; else exec "${@:2}"; fi
}

start_postgres() {
  local bin dir=$services/postgres port=54329
  bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | tail -1)
  if [ -z "$bin" ]; then
    install_debian postgresql || return 1
    bin=$(ls -d /usr/lib/postgresql/*/bin | tail -1)
  fi
  mkdir "$dir" && { [ "$(id -u)" != 0 ] || chown postgres "$dir"; }
  (as postgres "$bin/initdb" -D "$dir/data" -A trust -U postgres >"$services/postgres.log" 2>&1) || return 1
  as postgres "$bin/postgres" -D "$dir/data" -p $port -h 127.0.0.1 -k "$dir" >>"$services/postgres.log" 2>&1 &
  started+=($!)
  export TIDEMARK_TEST_POSTGRES=postgres://postgres@127.0.0.1:$port/postgres
  wait_for postgres "$TIDEMARK_TEST_POSTGRES"
}

start_mysql() {
  local dir=$services/mysql port=33069 owner
  command -v mariadbd >/dev/null 2>&1 || install_debian mariadb-server || return 1
  owner=$([ "$(id -u)" = 0 ] && echo mysql || id -un)
  mkdir "$dir" && { [ "$(id -u)" != 0 ] || chown mysql "$dir"; }
  (as "$owner" mariadb-install-db --user="$owner" --auth-root-authentication-method=normal --datadir="$dir/data" \
    >"$services/mysql.log" 2>&1) || return 1
  as "$owner" mariadbd --no-defaults --user="$owner" --datadir="$dir/data" --bind-address=127.0.0.1 --port=$port \
    --socket="$dir/s.sock" >>"$services/mysql.log" 2>&1 &
  started+=($!)
  export TIDEMARK_TEST_MYSQL=mysql://root@127.0.0.1:$port/mysql
  wait_for mysql "$TIDEMARK_TEST_MYSQL"
}

# The usual addresses, as test/support looks for them.
answers postgres "${TIDEMARK_TEST_POSTGRES:-postgres://postgres@127.0.0.1:5432/postgres}" || start_postgres ||
  { tail -5 "$services/postgres.log" 2>/dev/null; stop 'PostgreSQL does not answer and could not be started.'; }
answers mysql "${TIDEMARK_TEST_MYSQL:-mysql://root@127.0.0.1:3306/test}" || start_mysql ||
  { tail -5 "$services/mysql.log" 2>/dev/null; stop 'MariaDB does not answer and could not be started.'; }
echo "PostgreSQL and MariaDB answer${started:+ (started here)}"
