require('reflect-metadata')
const { Module } = require('@nestjs/common')
const { NestFactory } = require('@nestjs/core')
const { createTidemark, defineConfig } = require('tidemark')
const { postgres, watch } = require('tidemark/postgres')

/**
 * Tidemark in a NestJS application that is built as CommonJS: it starts with its module and stops with the application.
 * In TypeScript the decorators stand where the two calls of `Module` and `inject` stand here.
 * Run: DATABASE_URL=postgres://… RPC_URL=https://… node examples/nestjs/main.cjs
 */
const transfers = watch({
  on: { ethereum: { address: '0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48', startBlock: 1, at: 'latest' } },
  events: { Transfer: { event: 'event Transfer(address indexed from, address indexed to, uint256 value)' } },
  async handle({ event, db }) {
    await db.query('INSERT INTO transfers (id, amount) VALUES ($1, $2)', [event.stableId, event.args.value])
  },
  async undo({ event, db }) {
    await db.query('DELETE FROM transfers WHERE id = $1', [event.stableId])
  },
})

class TidemarkService {
  constructor() {
    this.store = postgres({ url: process.env['DATABASE_URL'] })
    this.tidemark = createTidemark(
      defineConfig({
        store: this.store,
        chains: { ethereum: { id: 1, rpc: [process.env['RPC_URL']] } },
        watchers: { transfers },
      }),
    )
  }

  async onModuleInit() {
    await this.tidemark.start()
    console.log('started')
  }

  async onApplicationShutdown() {
    await this.tidemark.stop()
    console.log('stopped')
  }
}

class AppModule {}
Module({ providers: [TidemarkService], exports: [TidemarkService] })(AppModule)

async function main() {
  const app = await NestFactory.createApplicationContext(AppModule)
  // SIGTERM reaches onApplicationShutdown, which waits for the open step.
  app.enableShutdownHooks()
}

main().catch((error) => {
  console.error(error)
  process.exitCode = 1
})
