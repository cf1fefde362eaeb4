import Fastify from 'fastify'
import pg from 'pg'
import { createTidemark, defineConfig } from 'tidemark'
import { type PgDb, postgres, watch } from 'tidemark/postgres'

/**
 * Tidemark inside a Fastify application: the application's own pool, its own logger, and it stops with the application.
 * Run: DATABASE_URL=postgres://… RPC_URL=https://… npx jiti examples/fastify/app.ts
 */
const pool = new pg.Pool({ connectionString: process.env['DATABASE_URL'], max: 10 })
const app = Fastify({ logger: true })

const balances = watch({
  on: { ethereum: { address: '0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48', startBlock: 1, at: 'latest' } },
  events: { Transfer: { event: 'event Transfer(address indexed from, address indexed to, uint256 value)' } },
  async handle({ event, db }) {
    await add(db, event.args.to, event.args.value)
    return { to: event.args.to, value: event.args.value }
  },
  // What a reorg orphaned is taken back, from what the handler left behind.
  undo: ({ memo, db }) => add(db, memo.to, -memo.value),
})

function add(db: PgDb, account: string, value: bigint) {
  const sql = `INSERT INTO received (account, amount) VALUES ($1, $2)
    ON CONFLICT (account) DO UPDATE SET amount = received.amount + excluded.amount`
  return db.query(sql, [account, value])
}

const tidemark = createTidemark(
  defineConfig({
    store: postgres({ pool }),
    chains: { ethereum: { id: 1, rpc: [process.env['RPC_URL']] } },
    watchers: { balances },
  }),
  { logger: { log: (level, sentence, values) => app.log[level](values ?? {}, sentence) } },
)

app.get('/status', () => tidemark.status())
app.get<{ Params: { account: string } }>('/received/:account', async ({ params }) => {
  const { rows } = await pool.query('SELECT amount FROM received WHERE account = $1', [params.account.toLowerCase()])
  return { amount: String(rows[0]?.amount ?? 0) }
})

app.addHook('onReady', async () => {
  await pool.query('CREATE TABLE IF NOT EXISTS received (account text PRIMARY KEY, amount numeric(78,0) NOT NULL)')
  await tidemark.start()
})
app.addHook('onClose', async () => {
  await tidemark.stop()
  await pool.end()
})

process.once('SIGTERM', () => void app.close())
await app.listen({ host: '127.0.0.1', port: Number(process.env['PORT'] ?? 3000) })
