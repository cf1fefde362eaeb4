import { sep } from 'node:path'
import { pathToFileURL } from 'node:url'

/** What differs between databases in a user's program: the driver's placeholders, the upsert, how a COPY is begun. */

const dist = pathToFileURL(`${import.meta.dirname}${sep}..${sep}..${sep}dist${sep}`).href

function numbered(text) {
  let n = 0
  return text.replaceAll('?', () => `$${++n}`)
}

/** Begins a COPY of two rows, and goes on with it after `middle`. */
async function copyHalf(db, middle) {
  const { from } = await import('pg-copy-streams')
  const stream = (await db.raw).query(from('COPY copied (n) FROM STDIN'))
  const ended = new Promise((resolve, reject) => {
    stream.on('finish', resolve)
    stream.on('error', reject)
  })
  ended.catch(() => {})
  await new Promise((done) => stream.write('1\n', done))
  // The driver's socket has taken the half; the server is told of it before the process stands still.
  await new Promise((done) => setImmediate(done))
  middle()
  stream.end('2\n')
  await ended
}

async function postgres({ url, who, leaseMs }) {
  const { postgres: open, watch, rows } = await import(`${dist}store/postgres/index.js`)
  const upsert = `INSERT INTO balances (account, amount) VALUES ($1, $2)
    ON CONFLICT (account) DO UPDATE SET amount = balances.amount + excluded.amount`
  return {
    watch,
    rows,
    openStore: () => open({ url, leaseMs, applicationName: who, maxConnections: 5 }),
    copyHalf,
    sql: (db, text, values) => db.query(text.startsWith('UPSERT') ? upsert : numbered(text), values),
    amount: String,
  }
}

async function mysql({ url, leaseMs }) {
  const { mysql: open, watch, rows } = await import(`${dist}store/mysql/index.js`)
  const upsert = `INSERT INTO balances (account, amount) VALUES (?, ?)
    ON DUPLICATE KEY UPDATE amount = amount + VALUES(amount)`
  return {
    watch,
    rows,
    openStore: () => open({ url, leaseMs }),
    copyHalf: async () => {},
    sql: (db, text, values) => db.query(text.startsWith('UPSERT') ? upsert : text, values),
    amount: String,
  }
}

export const dialects = { postgres, mysql }
