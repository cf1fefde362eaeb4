import { expect, test } from 'vitest'
import { TidemarkError } from '../errors.ts'
import { testWorld } from '../testkit/test-world.ts'
import { Providers } from './providers.ts'
import { type RpcTransport, readChainId } from './rpc.ts'
import type { Meaning } from './rpc-errors.ts'

interface Endpoint extends RpcTransport {
  asked: number[]
  state: Meaning | number
}

function setup(states: (Meaning | number)[]) {
  const world = testWorld({ autoAdvance: true })
  const endpoints = states.map((state, i): Endpoint => {
    const endpoint: Endpoint = {
      label: `rpc[${i}]`,
      asked: [],
      state,
      async send(calls) {
        endpoint.asked.push(world.monotonic())
        const { state: now } = endpoint
        if (typeof now === 'number') return calls.map(() => ({ ok: true, result: now }))
        return calls.map(() => ({ ok: false, error: { message: '', meaning: now } }))
      },
    }
    return endpoint
  })
  const told: string[] = []
  const providers = new Providers({ chainId: 1, transports: endpoints, world, onSetAside: (label) => told.push(label) })
  const ask = () =>
    providers.ask((node) => readChainId(node)).catch((error) => (TidemarkError.is(error) ? error.code : String(error)))
  return { world, endpoints, providers, told, ask }
}

test('on a failure the next one is asked, and remembered', async () => {
  const { ask, endpoints } = setup(['unreachable', 1])
  expect(await ask()).toEqual({ value: 1, provider: 1 })
  await ask()
  await ask()
  expect(endpoints[0]?.asked).toHaveLength(1)
})

test('a fault of the request is not carried to every endpoint', async () => {
  const { ask, endpoints, providers } = setup([1, 1])
  await ask()
  if (endpoints[0]) endpoints[0].state = 'too-many-results'
  expect(await ask()).toBe('RPC_RANGE_TOO_LARGE')
  expect(endpoints[1]?.asked).toHaveLength(0)
  expect(providers.current).toBe(0)
})

test('no hammering: when all have failed, waits grow from a floor to a ceiling', async () => {
  const { ask, endpoints, world } = setup(['unreachable'])
  for (let i = 0; i < 12; i++) expect(await ask()).toBe('RPC_UNREACHABLE')
  const times = endpoints[0]?.asked ?? []
  const waits = times.slice(1).map((time, i) => time - (times[i] ?? 0))
  expect(Math.min(...waits)).toBeGreaterThanOrEqual(250)
  expect(Math.max(...waits)).toBeLessThanOrEqual(15_000 * 1.25)
  expect(waits.at(-1)).toBeGreaterThan(10_000)
  expect(world.sleeping).toBe(0)
})

test('another chain: set aside aloud while one is right, an error when none is, checked again after that', async () => {
  const two = setup([5, 1])
  expect(await two.ask()).toEqual({ value: 1, provider: 1 })
  expect(two.told).toEqual(['rpc[0]'])
  const one = setup([5])
  expect(await one.ask()).toBe('CHAIN_MISMATCH')
  expect(one.told).toEqual([])
  if (one.endpoints[0]) one.endpoints[0].state = 1
  expect(await one.ask()).toEqual({ value: 1, provider: 0 })
})

test('a wrong chain beside one that is only down is waited for, not halted', async () => {
  const { ask } = setup([5, 'unreachable'])
  expect(await ask()).toBe('RPC_UNREACHABLE')
  expect(await ask()).toBe('RPC_UNREACHABLE')
})
