// Interop sends or consumes with the Go client rocketmq-client-go: interop '{"do": "send", …}' (support.other_clients).
//
// It prints one line: {"result": [bodies]} or {"error": "what the client returned"}. The client's log goes to standard error.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

type arguments struct {
	Do, Namesrv, Topic, Group            string
	Count                                int
	AccessKey, SecretKey, SecurityToken string
	DeadlineS                            int
}

func main() {
	var given arguments
	if err := json.Unmarshal([]byte(os.Args[1]), &given); err != nil {
		panic(err)
	}
	actions := map[string]func(arguments) ([]string, error){"send": send, "consume": consume, "pull": pull}
	result, err := actions[given.Do](given)
	answer := map[string]any{"result": result}
	if err != nil {
		answer = map[string]any{"error": err.Error()}
	}
	line, err := json.Marshal(answer)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(line))
}

func (given arguments) credentials() primitive.Credentials {
	return primitive.Credentials{AccessKey: given.AccessKey, SecretKey: given.SecretKey, SecurityToken: given.SecurityToken}
}

// send sends Count messages one after the other and returns their bodies.
func send(given arguments) ([]string, error) {
	client, err := producer.NewDefaultProducer(
		producer.WithNameServer(primitive.NamesrvAddr{given.Namesrv}),
		producer.WithGroupName(given.Group),
		producer.WithCredentials(given.credentials()),
		producer.WithRetry(0),
		producer.WithSendMsgTimeout(time.Duration(given.DeadlineS)*time.Second),
	)
	if err != nil {
		return nil, err
	}
	if err := client.Start(); err != nil {
		return nil, err
	}
	sent := []string{}
	for number := 0; number < given.Count; number++ {
		body := fmt.Sprintf("go-%d", number)
		message := primitive.NewMessage(given.Topic, []byte(body)).WithTag("go").WithKeys([]string{body})
		result, err := client.SendSync(context.Background(), message)
		if err != nil {
			return nil, err
		}
		if result.Status != primitive.SendOK {
			return nil, fmt.Errorf("send status %d", result.Status)
		}
		sent = append(sent, body)
	}
	return sent, client.Shutdown()
}

// consume returns the bodies of Count messages that a push consumer has received from the topic's beginning.
func consume(given arguments) ([]string, error) {
	client, err := consumer.NewPushConsumer(
		consumer.WithNameServer(primitive.NamesrvAddr{given.Namesrv}),
		consumer.WithGroupName(given.Group),
		consumer.WithCredentials(given.credentials()),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
	)
	if err != nil {
		return nil, err
	}
	bodies := make(chan string, 1000)
	handle := func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, message := range messages {
			bodies <- string(message.Body)
		}
		return consumer.ConsumeSuccess, nil
	}
	if err := client.Subscribe(given.Topic, consumer.MessageSelector{}, handle); err != nil {
		return nil, err
	}
	if err := client.Start(); err != nil {
		return nil, err
	}
	received := []string{}
	deadline := time.After(time.Duration(given.DeadlineS) * time.Second)
	for len(received) < given.Count {
		select {
		case body := <-bodies:
			received = append(received, body)
		case <-deadline:
			return nil, fmt.Errorf("%d of %d messages received within %d s", len(received), given.Count, given.DeadlineS)
		}
	}
	return received, client.Shutdown()
}

// pull makes one pull of queue 0 from its beginning. A push consumer writes refusals only to its log.
func pull(given arguments) ([]string, error) {
	client, err := consumer.NewPullConsumer(
		consumer.WithNameServer(primitive.NamesrvAddr{given.Namesrv}),
		consumer.WithGroupName(given.Group),
		consumer.WithCredentials(given.credentials()),
	)
	if err != nil {
		return nil, err
	}
	if err := client.Subscribe(given.Topic, consumer.MessageSelector{}); err != nil {
		return nil, err
	}
	if err := client.Start(); err != nil {
		return nil, err
	}
	queue := &primitive.MessageQueue{Topic: given.Topic, BrokerName: "guarded", QueueId: 0}
	pulled, err := client.PullFrom(context.Background(), queue, 0, given.Count)
	if err != nil {
		return nil, err
	}
	received := []string{}
	for _, message := range pulled.GetMessageExts() {
		received = append(received, string(message.Body))
	}
	return received, client.Shutdown()
}
