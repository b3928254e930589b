/** The yardstick: a bare Fastify that reads the same body and sends it back. Prints its URL. */
import fastify from 'fastify'

const server = fastify({ bodyLimit: 16 * 1024 * 1024, keepAliveTimeout: 120_000 })
server.post('/*', async (request) => request.body)
process.stdout.write(`${await server.listen({ port: 0, host: '127.0.0.1' })}\n`)
