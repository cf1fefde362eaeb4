import { defineConfig } from 'tidemark'
import { sqlite, totals, watch } from 'tidemark/sqlite'

/** Points of a game, by season and player. A list is `select player, points from points where season = ? order by points desc limit 10`. */
const game = process.env.GAME ?? '0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48'

const leaderboard = watch({
  on: { ethereum: { address: game, startBlock: 'now', at: 'latest' } },
  events: { Scored: { event: 'event Scored(address indexed player, uint32 indexed season, uint256 points)' } },
  tables: {
    points: totals({
      table: 'points',
      key: { season: 'integer', player: 'text' },
      sum: { points: 'int256', games: 'integer' },
    }),
  },
  undo: 'managed', // a score in an orphaned block is taken off by itself
  handle({ event, tables }) {
    const { player, season, points } = event.args
    tables.points.add({ season, player }, { points, games: 1 })
  },
})

export default defineConfig({
  store: sqlite({ file: process.env.DATABASE ?? 'leaderboard.db' }),
  chains: { ethereum: { id: 1, rpc: [process.env.RPC_URL] } },
  watchers: { leaderboard },
})
