import { numeric, pgTable, text } from 'drizzle-orm/pg-core'

export const balances = pgTable('balances', {
  account: text().primaryKey(),
  amount: numeric({ precision: 78, scale: 0, mode: 'bigint' }).notNull(),
})
