a :: Queue(5;
b :: Queue("five);
c :: Queue(5);
d -> Discard;
