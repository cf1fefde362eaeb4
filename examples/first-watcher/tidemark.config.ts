import { defineConfig } from 'tidemark'
import { rows, sqlite, watch } from 'tidemark/sqlite'

const usdc = '0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48'

const transfers = watch({
  on: { ethereum: { address: usdc, startBlock: 'now', at: 'latest' } },
  events: { Transfer: { event: 'event Transfer(address indexed from, address indexed to, uint256 value)' } },
  tables: { transfers: rows({ table: 'transfers', columns: { from: 'text', to: 'text', amount: 'uint256' } }) },
  undo: 'managed', // rows of an orphaned block are taken back by themselves
  handle({ event, tables }) {
    tables.transfers.insert({ from: event.args.from, to: event.args.to, amount: event.args.value })
  },
})

export default defineConfig({
  store: sqlite({ file: 'first-watcher.db' }),
  chains: { ethereum: { id: 1, rpc: [process.env.RPC_URL] } },
  watchers: { transfers },
})
