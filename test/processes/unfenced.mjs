/**
 * Control: a store without the fence. Its lease is never lost, and the cursor row always seems to hold the caller's own
 * token. With it the tests must find a second writer.
 */
export function unfenced(store) {
  const never = new AbortController().signal
  const own = new Map()
  const acquire = store.acquire.bind(store)
  const transact = store.transact.bind(store)
  store.acquire = async (watcher) => {
    const lease = await acquire(watcher)
    if (!lease) return null
    own.set(watcher, lease.token)
    return { token: lease.token, lost: never, confirm: () => true, release: () => lease.release() }
  }
  const held =
    (read) =>
    async (...values) => {
      const row = await read(...values)
      const token = row && own.get(row.name)
      return token ? { ...row, token } : row
    }
  const unheld = (cursors) =>
    changed(cursors, { lock: held(cursors.lock.bind(cursors)), open: held(cursors.open.bind(cursors)) })
  store.transact = (body) => transact((tx) => body(changed(tx, { cursors: unheld(tx.cursors) })))
  return store
}

/** The object with some of its properties replaced. */
function changed(object, replaced) {
  return new Proxy(object, {
    get(target, key) {
      if (key in replaced) return replaced[key]
      const value = target[key]
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
}
