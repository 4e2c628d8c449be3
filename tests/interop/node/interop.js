// Sends or consumes with the Node client ali-ons: node interop.js '{"do": "send", …}' (support.other_clients).
//
// It prints one line: {"result": [bodies]} or {"error": "CODE: code, DESC: remark"}. The client's log goes to standard error.
'use strict';

const { Consumer, Message, Producer } = require('ali-ons');

const given = JSON.parse(process.argv[2]);
const logger = { info() {}, debug() {}, warn: console.error, error: console.error };
const options = {
  nameSrv: given.namesrv,
  httpclient: {}, // only for name servers found over HTTP, but the client insists on one
  accessKeyId: given.accessKey,
  accessKeySecret: given.secretKey,
  sendMsgTimeout: given.deadlineS * 1000,
  rebalanceInterval: 500,
  logger,
};

function answer(value) {
  process.stdout.write(JSON.stringify(value) + '\n', () => process.exit(0));
}

function refusal(error) {
  return { error: `CODE: ${error.code}, DESC: ${error.message}` };
}

async function send() {
  const producer = new Producer({ ...options, producerGroup: given.group });
  producer.on('error', console.error);
  // send() drops answers with code 1 and reports only that it failed (lib/producer/mq_producer.js).
  const { sendMessage } = producer._mqClient;
  producer._mqClient.sendMessage = (...args) => sendMessage.apply(producer._mqClient, args).catch(error => {
    answer(refusal(error));
    throw error;
  });
  await producer.ready();
  const sent = [];
  for (let number = 0; number < given.count; number++) {
    const body = `node-${number}`;
    const message = new Message(given.topic, 'node', body);
    message.keys = [ body ];
    await producer.send(message);
    sent.push(body);
  }
  answer({ result: sent });
}

async function consume() {
  const consumer = new Consumer({ ...options, consumerGroup: given.group, consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET' });
  const received = [];
  consumer.on('error', error => (error.code === 1 ? answer(refusal(error)) : console.error(error)));
  consumer.subscribe(given.topic, '*', async message => {
    received.push(message.body.toString());
    if (received.length === given.count) answer({ result: received });
  });
}

({ send, consume })[given.do]();
