import { expect, test } from 'vitest'
import { identify } from '../../dedup/identity.ts'
import { decodeEvent } from '../../handle/event.ts'
import { compileWatcher } from '../../handle/watch.ts'
import { watch } from '../../store/sqlite/index.ts'
import { fakeChain } from '../fake-chain.ts'
import { testAddress } from '../fake-log.ts'
import { Random } from '../random.ts'
import { eventMakers } from './event-maker.ts'

const [TOKEN, VAULT] = [testAddress('TOKEN'), testAddress('VAULT')]
const WANTED = ['0x1111111111111111111111111111111111111111', '0x2222222222222222222222222222222222222222']

const watcher = watch({
  on: { main: { address: [TOKEN, VAULT], startBlock: 0 } },
  events: {
    Transfer: {
      event: 'event Transfer(address indexed from, address indexed to, uint256 value)',
      args: { to: WANTED as [`0x${string}`] },
    },
    Named: {
      event: 'event Named(string indexed name, bytes indexed raw, uint8[2] indexed pair)',
      args: { name: 'alpha' },
    },
    Odd: {
      event: 'event Odd(uint8, int16, bytes4, bool, string, bytes, uint256[], (address who, string[] notes)[2] parts)',
    },
  },
  handle() {},
})

test('every log that is made is let through by the filter, and decodes', () => {
  const compiled = compileWatcher('w', watcher, 'main', 1)
  const chain = fakeChain({ chainId: 1 })
  const makers = eventMakers('w', watcher, 'main')
  for (let i = 0; i < 300; i++) chain.mine(makers.map((maker) => maker.make(new Random(`${maker.name} ${i}`))))
  const logs = chain.canonical().flatMap((block) => block.logs)
  const events = identify(1, logs).map((one) => decodeEvent(compiled, one))
  expect(events.map((event) => event?.name)).toEqual(logs.map((_, i) => makers[i % makers.length]?.name))
  expect(new Set(events.map((event) => event?.address))).toEqual(new Set([TOKEN, VAULT]))
  const to = events.flatMap((event) => (event?.name === 'Transfer' ? [(event.args as { to: string }).to] : []))
  expect(new Set(to)).toEqual(new Set(WANTED))
})

test('the same seed makes the same, and values collide', () => {
  const [maker] = eventMakers('w', watcher, 'main')
  const make = (seed: number) => JSON.stringify(maker?.make(new Random(seed)))
  const all = Array.from({ length: 400 }, (_, seed) => make(seed))
  expect(all).toEqual(Array.from({ length: 400 }, (_, seed) => make(seed)))
  expect(new Set(all).size).toBeLessThan(400)
  expect(new Set(all).size).toBeGreaterThan(50)
})
