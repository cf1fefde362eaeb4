import { test } from 'vitest'
import { cornersOfOneDatabase, describePostgres, numbersProbe } from '../../../test/support/postgres.ts'
import { storeContract } from '../../testkit/store-contract.ts'
import { postgres } from './index.ts'

describePostgres('the contract of a store', () => {
  const makeStore = cornersOfOneDatabase('plain', (url, schema) => postgres({ url, schema }))
  storeContract('postgres', makeStore, { test, probe: numbersProbe })
})
