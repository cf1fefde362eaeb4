import { PrismaPg } from '@prisma/adapter-pg'
import { DeduplicationManager } from 'tidemark'
import { postgres } from 'tidemark/postgres'
import { PrismaClient } from './generated/client.ts'

/**
 * `once` in a Prisma transaction: the effect and its mark commit together. Prisma keeps its connection to itself, so
 * Tidemark's statements go through the transaction's own methods; watchers need a client of the driver.
 *
 * The client in `generated` was made by `npx prisma generate --schema examples/prisma/schema.prisma`.
 * Run: DATABASE_URL=postgres://… npx jiti examples/prisma/once.ts
 */
const url = process.env['DATABASE_URL']
const prisma = new PrismaClient({ adapter: new PrismaPg({ connectionString: url ?? '' }) })
const store = postgres({ url })
await store.migrate('auto')
const dedup = new DeduplicationManager({ store, chainId: 1 })

const event = { transactionHash: `0x${'ab'.repeat(32)}`, logIndex: 7, blockNumber: 19_000_000 } as const

// Delivered twice, as every queue does now and then.
for (let delivery = 1; delivery <= 2; delivery++) {
  const { outcome } = await prisma.$transaction((tx) =>
    dedup.once(tx, event, () => tx.balance.create({ data: { account: 'bob', amount: 5n } })),
  )
  console.log(outcome)
}

await store.close()
await prisma.$disconnect()
